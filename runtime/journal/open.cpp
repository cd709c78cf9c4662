// Making, opening and closing a journal.
#include <unistd.h>

#include <system_error>

#include "embedded/runtime/journal/journal.sql"
#include "runtime/journal/journal_files.hpp"
#include "runtime/journal/state.hpp"

namespace weft {
namespace {

/// With Sync::full the log gets this length before the first commit. A commit
/// that lengthens a file makes the file system commit too, which takes longer
/// than the rows do. SQLite begins anew at the log's start after 1,000 pages
/// (4 MiB); what the commit before that brings fits in the rest.
constexpr std::int64_t kLogBytes = std::int64_t{8} << 20;

Result<void> make_tables(Database& database) {
  auto savepoint = Savepoint::begin(database);
  if (!savepoint) return std::unexpected(savepoint.error());
  if (auto result = database.execute(embedded::runtime_journal_journal);
      !result)
    return result;
  auto stored =
      store_meta(database, kFormatKey, std::to_string(kJournalFormat));
  if (!stored) return stored;
  Chain chain;
  auto digest = digest_meta(database, chain);
  if (!digest) return std::unexpected(digest.error());
  const Head head{0, to_hex(bytes_of(Check{})), 0, std::move(*digest)};
  stored = store_meta(database, kHeadKey, head.to_text());
  if (!stored) return stored;
  return savepoint->commit();
}

Result<void> require_file(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(file, ignored)) return {};
  return fail(ErrorCode::wrong_input,
              file.string() + ": there is no such journal: check the path");
}

/// Without a write-ahead log a reader would block the writer.
Result<void> use_wal(Database& database, const std::filesystem::path& file) {
  auto pragma = database.prepare("PRAGMA journal_mode = WAL");
  if (!pragma) return std::unexpected(pragma.error());
  const auto row = pragma->step();
  if (!row) return std::unexpected(row.error());
  if (*row && pragma->bytes(0) == "wal") return {};
  return fail(ErrorCode::wrong_input,
              file.string() +
                  ": SQLite can't keep a write-ahead log there: "
                  "choose a directory on a local disk");
}

/// check_format(), and of a young journal without its log, whose tables were in
/// there, what is missing.
Result<void> check_known(Database& database,
                         const std::filesystem::path& file) {
  auto known = check_format(database, file);
  if (known || has_log(file)) return known;
  if (!known.error().message.contains("no such table")) return known;
  const auto events = JournalLock::committed(file);
  if (!events) return known;
  const std::string what =
      *events == 0
          ? "it is empty: the run died at once, or its -wal was deleted"
          : "its -wal was deleted, and with it all " + std::to_string(*events) +
                " events";
  return fail(ErrorCode::damaged, file.string() + ": " + what +
                                      ": restore both from a copy, or begin "
                                      "again with another --out");
}

/// A read-only directory has no room for the files that readers of a
/// write-ahead log share. Without such a log there, nobody can be writing.
bool can_only_be_read(const std::filesystem::path& file) {
  const auto directory = std::filesystem::absolute(file).parent_path();
  std::error_code ignored;
  return ::access(directory.c_str(), W_OK) != 0 &&
         !std::filesystem::exists(write_ahead_log_of(file), ignored);
}

}  // namespace

Journal::Journal(std::unique_ptr<State> state) : state_(std::move(state)) {}
Journal::Journal(Journal&&) noexcept = default;
Journal& Journal::operator=(Journal&&) noexcept = default;
Journal::~Journal() = default;

Result<void> Journal::State::prepare_to_write(Sync sync) {
  if (auto used = use_wal(database, file); !used) return used;
  auto set =
      database.execute(sync == Sync::full ? "PRAGMA synchronous = FULL"
                                          : "PRAGMA synchronous = NORMAL");
  if (!set) return set;
  const struct {
    Statement& statement;
    std::string_view sql;
  } all[] = {
      {insert_event, "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
      {insert_blob, "INSERT INTO blob VALUES (?, ?, ?, ?)"},
      {update_head, "UPDATE meta SET value = ? WHERE key = 'head'"},
      {find_blob, "SELECT 1 FROM blob WHERE hash = ?"},
  };
  for (const auto& [statement, sql] : all) {
    auto prepared = database.prepare(sql);
    if (!prepared) return std::unexpected(prepared.error());
    statement = std::move(*prepared);
  }
  return {};
}

Result<void> Journal::State::load_tail() {
  auto loaded = load_head(database, file);
  if (!loaded) return std::unexpected(loaded.error());
  head = std::move(*loaded);
  const auto digest = digest_meta(database, chain);
  if (!digest) return std::unexpected(digest.error());
  if (*digest != head.meta_digest) return damaged("a meta value was changed");
  auto check = read(head.seq, [](const Envelope&) { return true; });
  if (!check) return std::unexpected(check.error());
  last_check = *check;
  return {};
}

Result<Journal> Journal::open_to_write(const std::filesystem::path& file,
                                       Sync sync, JournalLock lock, int flags) {
  auto database = Database::open(file, SQLITE_OPEN_READWRITE | flags);
  if (!database) return std::unexpected(database.error());
  auto state =
      std::make_unique<State>(file, std::move(lock), std::move(*database));
  if (flags & SQLITE_OPEN_CREATE) {
    auto result = use_wal(state->database, file);
    if (result) result = make_tables(state->database);
    if (!result) return std::unexpected(result.error());
  }
  auto ready = check_known(state->database, file);
  if (ready) ready = state->prepare_to_write(sync);
  if (ready) ready = state->load_tail();
  if (ready && sync == Sync::full) {
    ready = state->database.lengthen_log(kLogBytes);
  }
  if (!ready) return std::unexpected(ready.error());
  state->lock->note(state->head.seq);
  return Journal(std::move(state));
}

Result<Journal> Journal::create(const std::filesystem::path& file, Sync sync) {
  auto lock = JournalLock::take(file);
  if (!lock) return std::unexpected(lock.error());
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    return fail(ErrorCode::wrong_input,
                file.string() +
                    " is there already: choose another "
                    "directory, or go on with 'weft resume'");
  }
  // A note about a deleted journal of the same name must not outlive it.
  lock->note(0);
  return open_to_write(file, sync, std::move(*lock), SQLITE_OPEN_CREATE);
}

Result<Journal> Journal::open(const std::filesystem::path& file, Sync sync) {
  if (auto there = require_file(file); !there) {
    return std::unexpected(there.error());
  }
  auto lock = JournalLock::take(file);
  if (!lock) return std::unexpected(lock.error());
  return open_to_write(file, sync, std::move(*lock), 0);
}

Result<Journal> Journal::open_read_only(const std::filesystem::path& file) {
  if (auto there = require_file(file); !there) {
    return std::unexpected(there.error());
  }
  auto database =
      Database::open(file, SQLITE_OPEN_READONLY, can_only_be_read(file));
  if (!database) return std::unexpected(database.error());
  // Only the format is looked at: of a damaged journal a person wants to
  // read what there is, and read() says where that ends.
  if (auto known = check_known(*database, file); !known) {
    return std::unexpected(known.error());
  }
  return Journal(
      std::make_unique<State>(file, std::nullopt, std::move(*database)));
}

}  // namespace weft
