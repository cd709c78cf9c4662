#include "runtime/store/sqlite.hpp"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

Error describe(const std::string& file, int code, std::string_view detail) {
  const auto message = [&](std::string_view advice) {
    return file + ": " + std::string(detail) + ": " + std::string(advice);
  };
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {ErrorCode::damaged,
              message("the file's own pages are damaged, or it was never a "
                      "journal; restore it from a copy")};
    case SQLITE_FULL:
      return {ErrorCode::missing,
              message("free some space; a run goes on with 'weft resume'")};
    case SQLITE_BUSY:
      return {ErrorCode::failed,
              message("another process has it in hand: try again later")};
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return {ErrorCode::wrong_input,
              message("check that you may use the file and its directory")};
    default:
      return {ErrorCode::failed,
              message("check the disk; a run goes on with 'weft resume'")};
  }
}

Error describe(const std::string& file, sqlite3* connection) {
  return describe(file, sqlite3_extended_errcode(connection),
                  sqlite3_errmsg(connection));
}

/// The path as SQLite's URI form wants it.
std::string immutable_uri(const std::filesystem::path& file) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    if (c == '?' || c == '#' || c == '%') {
      constexpr std::string_view kHex = "0123456789abcdef";
      uri += {'%', kHex[c >> 4], kHex[c & 15]};
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Statement::bind(int index, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
}

void Statement::bind_real(int index, double value) {
  sqlite3_bind_double(statement_.get(), index, value);
}

void Statement::bind_text(int index, std::string_view value) {
  // A null pointer would bind NULL, and an empty view may hold one.
  sqlite3_bind_text64(statement_.get(), index,
                      value.empty() ? "" : value.data(), value.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
}

void Statement::bind_blob(int index, std::string_view value) {
  sqlite3_bind_blob64(statement_.get(), index,
                      value.empty() ? "" : value.data(), value.size(),
                      SQLITE_STATIC);
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  auto error = describe(file_, sqlite3_db_handle(statement_.get()));
  reset();
  return std::unexpected(std::move(error));
}

Result<void> Statement::run() {
  for (;;) {
    const auto row = step();
    if (!row) return std::unexpected(row.error());
    if (!*row) break;
  }
  reset();
  return {};
}

void Statement::reset() { sqlite3_reset(statement_.get()); }

int Statement::type(int column) const {
  return sqlite3_column_type(statement_.get(), column);
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string_view Statement::bytes(int column) const {
  // As a blob also where it is text: asking for text may copy it to add a NUL.
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size_bytes = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(size_bytes)};
}

void Database::Close::operator()(sqlite3* connection) const {
  sqlite3_close(connection);
}

Result<Database> Database::open(const std::filesystem::path& file, int flags,
                                bool immutable) {
  const std::string name = immutable ? immutable_uri(file) : file.string();
  if (immutable) flags |= SQLITE_OPEN_URI;
  Database database;
  database.file_ = file.string();
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &connection,
                                   flags | SQLITE_OPEN_NOMUTEX, nullptr);
  database.connection_.reset(connection);
  if (code != SQLITE_OK) {
    return std::unexpected(
        describe(database.file_, code, sqlite3_errstr(code)));
  }
  // Nobody holds a lock for long; this covers two readers that both find the
  // log of a killed writer and want to recover it.
  constexpr int kLockWaitMs = 10'000;
  sqlite3_busy_timeout(connection, kLockWaitMs);
  for (const int setting :
       {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
        SQLITE_DBCONFIG_TRUSTED_SCHEMA}) {
    sqlite3_db_config(connection, setting, 0, nullptr);
  }
  if (auto plain = database.require_plain_tables(); !plain) {
    return std::unexpected(plain.error());
  }
  auto savepoint = database.prepare("SAVEPOINT weft");
  if (!savepoint) return std::unexpected(savepoint.error());
  database.savepoint_ = std::move(*savepoint);
  auto release = database.prepare("RELEASE weft");
  if (!release) return std::unexpected(release.error());
  database.release_ = std::move(*release);
  return database;
}

Result<void> Database::execute(const char* sql) {
  const int code =
      sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return {};
  return std::unexpected(describe(file_, connection_.get()));
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(
      connection_.get(), sql.data(), static_cast<int>(sql.size()),
      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code == SQLITE_OK) return Statement(statement, file_);
  if (code == SQLITE_ERROR) {
    // Our SQL is fixed, so what is wrong is the file's list of tables.
    return std::unexpected(
        describe(file_, SQLITE_CORRUPT, sqlite3_errmsg(connection_.get())));
  }
  return std::unexpected(describe(file_, connection_.get()));
}

Result<void> Database::require_plain_tables() {
  // One parenthesis is the list of columns. A further one holds an expression,
  // except in UNIQUE(a, b). Views and virtual tables have no page.
  auto others = prepare(
      "SELECT 1 FROM sqlite_master WHERE type NOT IN ('table', 'index') OR "
      "rootpage = 0 OR length(sql) - length(replace(replace(upper(sql), "
      "'UNIQUE(', 'UNIQUE '), '(', '')) > 1");
  if (!others) return std::unexpected(others.error());
  const auto found = others->step();
  if (!found) return std::unexpected(found.error());
  if (!*found) return {};
  return fail(ErrorCode::damaged,
              file_ +
                  ": it has a view, a trigger or a computed column, which weft "
                  "does not write; somebody else made this file: do not use "
                  "it");
}

Result<bool> Database::has_other_table(
    std::initializer_list<std::string_view> own) {
  auto tables = prepare(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE "
      "'sqlite\\_%' ESCAPE '\\'");
  if (!tables) return std::unexpected(tables.error());
  for (;;) {
    const auto row = tables->step();
    if (!row) return std::unexpected(row.error());
    if (!*row) return false;
    if (std::ranges::find(own, tables->bytes(0)) == own.end()) return true;
  }
}

bool Database::in_transaction() const {
  return sqlite3_get_autocommit(connection_.get()) == 0;
}

Result<void> Database::lengthen_log(std::int64_t size_bytes) {
  const std::string zeros(std::size_t{64} << 10, '\0');
  sqlite3_file* log = nullptr;
  sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_JOURNAL_POINTER,
                       &log);
  if (log == nullptr || log->pMethods == nullptr) return {};
  sqlite3_int64 end = 0;
  int code = log->pMethods->xFileSize(log, &end);
  while (code == SQLITE_OK && end < size_bytes) {
    code = log->pMethods->xWrite(log, zeros.data(),
                                 static_cast<int>(zeros.size()), end);
    end += static_cast<sqlite3_int64>(zeros.size());
  }
  if (code == SQLITE_OK) code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
  if (code == SQLITE_OK) return {};
  return std::unexpected(describe(file_, code, sqlite3_errstr(code)));
}

Result<Savepoint> Savepoint::begin(Database& database) {
  if (auto begun = database.savepoint_.run(); !begun) {
    return std::unexpected(begun.error());
  }
  return Savepoint(database);
}

Savepoint::Savepoint(Savepoint&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

Savepoint::~Savepoint() {
  // SQLite has undone everything itself after some errors (a full disk).
  if (database_ == nullptr || !database_->in_transaction()) return;
  (void)database_->execute("ROLLBACK TO weft; RELEASE weft");
}

Result<void> Savepoint::commit() {
  if (auto done = database_->release_.run(); !done) return done;
  database_ = nullptr;
  return {};
}

}  // namespace weft
