// SQLite alone: the journal's rows without the chain, written with prepared
// statements, as a program without weft would. What the benchmarks compare to;
// once more with a log laid out in advance, which the journal has and such a
// program hardly would.
#pragma once

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "benchmarks/measurement_rounds.hpp"
#include "messages/envelope.hpp"
#include "runtime/journal/journal.hpp"

namespace weft::benchmark {

inline void remove_database(const std::filesystem::path& file) {
  for (const char* suffix : {"", "-wal", "-shm", "-lock"}) {
    std::filesystem::remove(file.string() + suffix);
  }
}

/// Whether the write-ahead log has its length before the first row comes.
enum class Log { grows, laid_out };

class BareTable {
 public:
  BareTable(const std::filesystem::path& file, Sync sync, Log log) {
    require(sqlite3_open_v2(file.c_str(), &database_,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                SQLITE_OPEN_NOMUTEX,
                            nullptr) == SQLITE_OK,
            "cannot open " + file.string());
    execute("PRAGMA journal_mode = WAL");
    execute(sync == Sync::full ? "PRAGMA synchronous = FULL"
                               : "PRAGMA synchronous = NORMAL");
    execute(
        "CREATE TABLE event(seq INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, "
        "cause INTEGER NOT NULL, src TEXT NOT NULL, dst TEXT NOT NULL, "
        "type TEXT NOT NULL, body BLOB NOT NULL)");
    if (log == Log::laid_out) lay_out(file.string() + "-wal");
    begin_ = prepare("BEGIN");
    commit_ = prepare("COMMIT");
    insert_ = prepare("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)");
  }
  ~BareTable() {
    for (auto* statement : {begin_, commit_, insert_}) {
      sqlite3_finalize(statement);
    }
    sqlite3_close(database_);
  }

  /// In one transaction.
  void append(std::span<const Envelope> group) {
    run(begin_);
    for (const auto& envelope : group) insert(envelope);
    run(commit_);
  }

 private:
  /// As long as the journal's, and with that on the disk.
  static void lay_out(const std::string& log) {
    std::ofstream(log, std::ios::binary | std::ios::app)
        << std::string(std::size_t{8} << 20, '\0');
    const int file = ::open(log.c_str(), O_RDWR | O_CLOEXEC);
    require(file >= 0 && ::fsync(file) == 0, "cannot lay out " + log);
    ::close(file);
  }
  void execute(const char* sql) {
    require(
        sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK,
        sqlite3_errmsg(database_));
  }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    require(sqlite3_prepare_v2(database_, sql, -1, &statement, nullptr) ==
                SQLITE_OK,
            sqlite3_errmsg(database_));
    return statement;
  }
  void run(sqlite3_stmt* statement) {
    require(sqlite3_step(statement) == SQLITE_DONE, sqlite3_errmsg(database_));
    sqlite3_reset(statement);
  }
  void text(int index, const std::string& value) {
    sqlite3_bind_text(insert_, index, value.data(),
                      static_cast<int>(value.size()), SQLITE_STATIC);
  }
  void insert(const Envelope& envelope) {
    sqlite3_bind_int64(insert_, 1, ++seq_);
    sqlite3_bind_int64(insert_, 2, envelope.at_us);
    sqlite3_bind_int64(insert_, 3, static_cast<sqlite3_int64>(envelope.cause));
    text(4, envelope.src);
    text(5, envelope.dst);
    text(6, envelope.type);
    sqlite3_bind_blob(insert_, 7, envelope.body.data(),
                      static_cast<int>(envelope.body.size()), SQLITE_STATIC);
    run(insert_);
  }

  sqlite3* database_ = nullptr;
  sqlite3_stmt* begin_ = nullptr;
  sqlite3_stmt* commit_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
  sqlite3_int64 seq_ = 0;
};

}  // namespace weft::benchmark
