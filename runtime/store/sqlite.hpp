// SQLite as values: a connection, a prepared statement, a transaction, and
// its result codes turned into Errors that name the file. One thread at a time.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "messages/result.hpp"

namespace weft {

/// One prepared statement. Bound text and blobs are not copied: they must
/// live until the next reset().
class Statement {
 public:
  Statement() = default;
  Statement(sqlite3_stmt* statement, std::string file)
      : statement_(statement), file_(std::move(file)) {}

  void bind(int index, std::int64_t value);
  void bind_real(int index, double value);
  void bind_text(int index, std::string_view value);
  void bind_blob(int index, std::string_view value);

  /// True when there is a row to look at, false at the end.
  Result<bool> step();
  /// Steps to the end and makes ready for the next use.
  Result<void> run();
  void reset();

  /// Type is SQLITE_INTEGER, SQLITE_TEXT, ... as stored in this row.
  int type(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  /// Text or blob as stored; valid until the next step() or reset().
  std::string_view bytes(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string file_;
};

/// One connection to one file.
class Database {
 public:
  /// `flags` are SQLITE_OPEN_...; `immutable` reads a file that nobody can
  /// write, which is the only way on a read-only file system. The error
  /// `damaged` also means that the file holds SQL that would run when it is
  /// read or written: a view, a trigger or a computed column.
  static Result<Database> open(const std::filesystem::path& file, int flags,
                               bool immutable = false);

  Result<void> execute(const char* sql);
  /// damaged when the tables that the statement names are not there.
  Result<Statement> prepare(std::string_view sql);
  /// Whether it has a table that is none of `own`: the file is somebody else's.
  Result<bool> has_other_table(std::initializer_list<std::string_view> own);
  bool in_transaction() const;
  /// Makes the file of the write-ahead log at least this long, with zeros after
  /// what it holds. Written and synced: reserved blocks would not do, since a
  /// file system notes in its own journal that they were first written to.
  Result<void> lengthen_log(std::int64_t size_bytes);

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  Result<void> require_plain_tables();
  friend class Savepoint;
  std::unique_ptr<sqlite3, Close> connection_;
  Statement savepoint_, release_;  ///< go before their connection
  std::string file_;
};

/// A savepoint, undone when it goes out of scope without commit(). Reading
/// inside one sees the file at one moment, whatever a writer does.
class Savepoint {
 public:
  static Result<Savepoint> begin(Database& database);
  Savepoint(Savepoint&& other) noexcept;
  Savepoint& operator=(Savepoint&&) = delete;
  ~Savepoint();
  Result<void> commit();

 private:
  explicit Savepoint(Database& database) : database_(&database) {}
  Database* database_;  ///< null when there is nothing left to undo
};

}  // namespace weft
