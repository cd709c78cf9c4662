#include "runtime/store/llm_store.hpp"

#include <cstdlib>
#include <exception>
#include <system_error>

#include "runtime/store/library.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string packed(const StoredAnswer& answer) {
  msgpack::sbuffer buffer;
  msgpack::pack(buffer, answer);
  return {buffer.data(), buffer.size()};
}

/// Nothing for bytes that are no answer: a call that is made again costs less
/// than a run that ends.
std::optional<StoredAnswer> unpacked(std::string_view bytes) {
  try {
    return msgpack::unpack(bytes.data(), bytes.size()).get().as<StoredAnswer>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// Full sync: what was paid for must outlive a power cut. A file that has any
/// table but `own` is left alone.
Result<Database> open_database(const fs::path& file,
                               std::initializer_list<std::string_view> own,
                               const char* tables) {
  std::error_code ignored;
  if (file.has_parent_path())
    fs::create_directories(file.parent_path(), ignored);
  auto database =
      Database::open(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!database) return database;
  const auto is_foreign = database->has_other_table(own);
  if (!is_foreign) return std::unexpected(is_foreign.error());
  if (*is_foreign) {
    return fail(ErrorCode::damaged,
                file.string() + " holds other tables: name another file");
  }
  for (const char* sql :
       {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", tables}) {
    if (const auto done = database->execute(sql); !done) {
      return std::unexpected(done.error());
    }
  }
  return database;
}

Result<std::int64_t> number(Database& database, const char* sql,
                            const std::string& key) {
  auto query = database.prepare(sql);
  if (!query) return std::unexpected(query.error());
  query->bind_text(1, key);
  const auto row = query->step();
  if (!row) return std::unexpected(row.error());
  return *row ? query->integer(0) : 0;
}

}  // namespace

Result<LlmReplies> LlmReplies::open(const fs::path& file) {
  auto database = open_database(
      file, {"call", "batch"},
      "CREATE TABLE IF NOT EXISTS call(request TEXT PRIMARY KEY, "
      "prompt TEXT NOT NULL, good INTEGER NOT NULL DEFAULT 0, answer BLOB) "
      "WITHOUT ROWID; CREATE INDEX IF NOT EXISTS call_prompt ON call(prompt); "
      "CREATE TABLE IF NOT EXISTS batch(request TEXT PRIMARY KEY, "
      "batch TEXT NOT NULL, began_s INTEGER NOT NULL) WITHOUT ROWID");
  if (!database) return std::unexpected(database.error());
  return LlmReplies(std::move(*database));
}

Result<LlmReplies::Call> LlmReplies::find(const std::string& request) {
  auto query = database_.prepare(
      "SELECT answer, batch, began_s FROM call LEFT JOIN batch USING(request) "
      "WHERE request = ?");
  if (!query) return std::unexpected(query.error());
  query->bind_text(1, request);
  const auto row = query->step();
  if (!row) return std::unexpected(row.error());
  Call call;
  if (!*row) return call;
  call.asked = true;
  if (query->type(0) != SQLITE_NULL) call.answer = unpacked(query->bytes(0));
  if (query->type(1) != SQLITE_NULL) {
    call.batch = query->bytes(1);
    call.batch_began_s = query->integer(2);
  }
  return call;
}

Result<void> LlmReplies::note_asked(const std::string& request,
                                    const std::string& prompt) {
  auto query = database_.prepare(
      "INSERT OR IGNORE INTO call(request, prompt) VALUES(?, ?)");
  if (!query) return std::unexpected(query.error());
  query->bind_text(1, request);
  query->bind_text(2, prompt);
  return query->run();
}

Result<void> LlmReplies::forget_asked(const std::string& request) {
  auto query = database_.prepare(
      "DELETE FROM call WHERE request = ? AND answer IS NULL");
  if (!query) return std::unexpected(query.error());
  query->bind_text(1, request);
  return query->run();
}

Result<void> LlmReplies::keep(const std::string& request,
                              const StoredAnswer& answer) {
  auto query = database_.prepare(
      "UPDATE call SET answer = ?2, good = ?3 WHERE request = ?1");
  if (!query) return std::unexpected(query.error());
  const std::string bytes = packed(answer);
  query->bind_text(1, request);
  query->bind_blob(2, bytes);
  query->bind(3, answer.reply.failure ? 0 : 1);
  return query->run();
}

Result<void> LlmReplies::note_batch(const std::vector<std::string>& requests,
                                    const std::string& batch,
                                    std::int64_t began_s) {
  if (const auto begun = database_.execute("BEGIN IMMEDIATE"); !begun) {
    return begun;
  }
  Result<void> done;
  for (const std::string& request : requests) {
    auto query =
        database_.prepare("INSERT OR REPLACE INTO batch VALUES(?, ?, ?)");
    if (!query) {
      done = std::unexpected(query.error());
      break;
    }
    query->bind_text(1, request);
    query->bind_text(2, batch);
    query->bind(3, began_s);
    done = query->run();
    if (!done) break;
  }
  if (done) done = database_.execute("COMMIT");
  if (!done) (void)database_.execute("ROLLBACK");
  return done;
}

Result<int> LlmReplies::answered(const std::string& prompt) {
  const auto count =
      number(database_, "SELECT SUM(good) FROM call WHERE prompt = ?", prompt);
  if (!count) return std::unexpected(count.error());
  return static_cast<int>(*count);
}

Result<LlmCache> LlmCache::open(const fs::path& file, std::int64_t bytes_max) {
  auto database = open_database(
      file, {"answer"},
      "CREATE TABLE IF NOT EXISTS answer(id INTEGER PRIMARY KEY, "
      "prompt TEXT NOT NULL, ordinal INTEGER NOT NULL, bytes INTEGER NOT NULL, "
      "answer BLOB NOT NULL, UNIQUE(prompt, ordinal))");
  if (!database) return std::unexpected(database.error());
  return LlmCache(std::move(*database), bytes_max);
}

Result<std::optional<StoredAnswer>> LlmCache::find(const std::string& prompt,
                                                   int ordinal) {
  auto query = database_.prepare(
      "SELECT answer FROM answer WHERE prompt = ? AND ordinal = ?");
  if (!query) return std::unexpected(query.error());
  query->bind_text(1, prompt);
  query->bind(2, ordinal);
  const auto row = query->step();
  if (!row) return std::unexpected(row.error());
  if (!*row) return std::nullopt;
  return unpacked(query->bytes(0));
}

Result<void> LlmCache::add(const std::string& prompt,
                           const StoredAnswer& answer) {
  // In one statement, so that two runs do not give the same number.
  auto query = database_.prepare(
      "INSERT INTO answer(prompt, ordinal, bytes, answer) VALUES(?1, "
      "(SELECT COALESCE(MAX(ordinal) + 1, 0) FROM answer WHERE prompt = ?1), "
      "?2, ?3)");
  if (!query) return std::unexpected(query.error());
  const std::string bytes = packed(answer);
  query->bind_text(1, prompt);
  query->bind(2, static_cast<std::int64_t>(bytes.size() + prompt.size()));
  query->bind_blob(3, bytes);
  if (auto done = query->run(); !done) return done;
  // All answers of a prompt go together: their numbers begin at 0.
  auto trim = database_.prepare(
      "DELETE FROM answer WHERE prompt IN (SELECT prompt FROM (SELECT prompt, "
      "SUM(bytes) OVER (ORDER BY id DESC) AS newer FROM answer) "
      "WHERE newer > ?)");
  if (!trim) return std::unexpected(trim.error());
  trim->bind(1, bytes_max_);
  return trim->run();
}

fs::path default_llm_cache() {
  if (const char* set = std::getenv("WEFT_LLM_CACHE")) return set;
  const fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / "llm.db";
}

}  // namespace weft
