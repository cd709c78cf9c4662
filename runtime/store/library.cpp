#include "runtime/store/library.hpp"

#include <chrono>
#include <cstdlib>
#include <system_error>

#include "embedded/runtime/store/library.sql"
#include "runtime/store/own_key.hpp"
#include "runtime/store/sha256.hpp"
#include "runtime/store/text_lines.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// Of the tables, as they say themselves; another one is no library of ours.
constexpr std::int64_t kLayout = 1;
/// Other processes hold it for milliseconds.
constexpr const char* kWait = "PRAGMA busy_timeout = 5000";
/// An entry's time of use is that coarse: finding is not writing, as a rule.
constexpr std::int64_t kUsedGrainUs = std::int64_t{24} * 3600 * 1'000'000;
/// Of a kernel's row; a message of the journal's takes 64 MiB. Nothing that was
/// kept in earnest is longer.
constexpr std::size_t kRowBytesMax = std::size_t{16} << 20;

std::int64_t system_now_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch())
      .count();
}

std::string key_text(const KernelKey& key) {
  std::string text;
  for (const std::string& part : {key.signature, key.target, key.device,
                                  key.policy, std::to_string(key.format)}) {
    text += std::to_string(part.size()) + ":" + part;
  }
  return content_hash(text);
}

Speedup speedup_at(const Statement& row, int column) {
  return {row.real(column), row.real(column + 1), row.real(column + 2)};
}

/// Nothing where the row is too long to be a kernel's.
std::optional<StoredKernel> stored_in(const Statement& row) {
  std::size_t bytes = 0;
  for (const int column : {0, 1, 2, 3, 15}) bytes += row.bytes(column).size();
  if (bytes > kRowBytesMax) return std::nullopt;
  StoredKernel stored;
  KnownKernel& kernel = stored.kernel;
  stored.text = row.bytes(0);
  kernel.target = row.bytes(1);
  kernel.variant = row.bytes(2);
  kernel.origin = row.bytes(3);
  kernel.candidate.median_us = row.real(4);
  kernel.candidate.p10_us = row.real(5);
  kernel.candidate.p90_us = row.real(6);
  kernel.candidate.runs = static_cast<int>(row.integer(7));
  kernel.over_eager = speedup_at(row, 8);
  kernel.over_compile = speedup_at(row, 11);
  kernel.floor_share = row.real(14);
  kernel.superseded = lines_in(row.bytes(15));
  return stored;
}

Result<std::optional<StoredKernel>> select(Database& database,
                                           const std::string& key) {
  auto query = database.prepare(
      "SELECT source, target, variant, origin, median_us, p10_us, p90_us, "
      "runs, over_eager, over_eager_low, over_eager_high, over_compile, "
      "over_compile_low, over_compile_high, floor_share, outdone "
      "FROM kernel WHERE key = ?");
  if (!query) return std::unexpected(query.error());
  query->bind_text(1, key);
  const auto row = query->step();
  if (!row) return std::unexpected(row.error());
  if (!*row) return std::nullopt;
  return stored_in(*query);
}

Result<void> erase(Database& database, const std::string& key) {
  auto query = database.prepare("DELETE FROM kernel WHERE key = ?");
  if (!query) return std::unexpected(query.error());
  query->bind_text(1, key);
  return query->run();
}

/// In another's place, or anew what is remembered of the same one.
Result<void> insert(Database& database, const std::string& id,
                    const KernelKey& key, const StoredKernel& stored,
                    std::int64_t now_us) {
  auto query = database.prepare(
      "INSERT INTO kernel VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, "
      "?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?23, "
      "0, ?24) ON CONFLICT(key) DO UPDATE SET "
      "kept_us = CASE source WHEN excluded.source THEN kept_us "
      "ELSE excluded.kept_us END, "
      "uses = CASE source WHEN excluded.source THEN uses + 1 ELSE 0 END, "
      "source = excluded.source, target = excluded.target, "
      "variant = excluded.variant, origin = excluded.origin, "
      "median_us = excluded.median_us, p10_us = excluded.p10_us, "
      "p90_us = excluded.p90_us, runs = excluded.runs, "
      "over_eager = excluded.over_eager, "
      "over_eager_low = excluded.over_eager_low, "
      "over_eager_high = excluded.over_eager_high, "
      "over_compile = excluded.over_compile, "
      "over_compile_low = excluded.over_compile_low, "
      "over_compile_high = excluded.over_compile_high, "
      "floor_share = excluded.floor_share, outdone = excluded.outdone, "
      "used_us = excluded.used_us, bytes = excluded.bytes");
  if (!query) return std::unexpected(query.error());
  const KnownKernel& kernel = stored.kernel;
  const std::string superseded = lines_text(kernel.superseded);
  const std::string_view texts[] = {
      id,          key.signature, key.target,     key.device,   key.policy,
      stored.text, kernel.target, kernel.variant, kernel.origin};
  const int columns[] = {1, 2, 3, 4, 5, 7, 8, 9, 10};
  for (int i = 0; i < 9; ++i) query->bind_text(columns[i], texts[i]);
  query->bind(6, key.format);
  const Times& times = kernel.candidate;
  query->bind_real(11, times.median_us);
  query->bind_real(12, times.p10_us);
  query->bind_real(13, times.p90_us);
  query->bind(14, times.runs);
  const double reals[] = {kernel.over_eager.ratio, kernel.over_eager.low,
                          kernel.over_eager.high,  kernel.over_compile.ratio,
                          kernel.over_compile.low, kernel.over_compile.high,
                          kernel.floor_share};
  for (int i = 0; i < 7; ++i) query->bind_real(15 + i, reals[i]);
  query->bind_text(22, superseded);
  query->bind(23, now_us);
  query->bind(
      24, static_cast<std::int64_t>(stored.text.size() + key.signature.size() +
                                    superseded.size()));
  return query->run();
}

Result<std::int64_t> layout_of(Database& database) {
  auto query = database.prepare("PRAGMA user_version");
  if (!query) return std::unexpected(query.error());
  const auto row = query->step();
  if (!row) return std::unexpected(row.error());
  return query->integer(0);
}

std::unexpected<Error> of_another_weft() {
  return fail(ErrorCode::failed, "it was written by another weft");
}

/// What is shown to a person: the file, and what to do.
Error explained(const fs::path& file, const Error& error) {
  const std::string who = "the kernel library " + file.string();
  // SQLite's own begin with the file.
  const bool is_named = error.message.starts_with(file.string() + ": ");
  switch (error.code) {
    case ErrorCode::damaged:
      return {error.code,
              who +
                  " is damaged, or was never one: name another, or move it "
                  "away, and a new one is begun"};
    case ErrorCode::wrong_input:
      return {error.code, who +
                              " cannot be opened or written: name another "
                              "with --library, or use none (--no-library)"};
    default:
      return {error.code, is_named ? "the kernel library " + error.message
                                   : who + ": " + error.message};
  }
}

/// Only this user's weft can make it: a built kernel is loaded into the process
/// of the user's program, and its text, which is verified, may be another's.
std::string artefact_mark(std::string_view key, std::string_view bytes) {
  return own_mark(std::string(key) + '\0' + content_hash(bytes));
}

fs::path from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

Library::Library(fs::path file, LibraryLimits limits, Clock clock)
    : file_(std::move(file)),
      limits_(limits),
      clock_(clock ? std::move(clock) : &system_now_us) {}

Result<Database> Library::open() const {
  if (file_.empty()) {
    return fail(ErrorCode::missing, "this run has no kernel library");
  }
  std::error_code ignored;
  fs::create_directories(file_.parent_path(), ignored);
  auto database =
      Database::open(file_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!database) return database;
  if (const auto done = database->execute(kWait); !done) {
    return std::unexpected(done.error());
  }
  const auto found = layout_of(*database);
  if (!found) return std::unexpected(found.error());
  if (*found == kLayout) return database;
  if (*found != 0) return of_another_weft();
  const auto is_foreign =
      database->has_other_table({"kernel", "made", "pattern"});
  if (!is_foreign) return std::unexpected(is_foreign.error());
  if (*is_foreign) return fail(ErrorCode::damaged, "it has other tables");
  // Of several that begin it at once, one has its way; without WAL readers
  // wait for writers, no more.
  [[maybe_unused]] const auto changed =
      database->execute("PRAGMA journal_mode = WAL");
  if (const auto done = database->execute(embedded::runtime_store_library);
      !done) {
    return std::unexpected(done.error());
  }
  return database;
}

Result<std::vector<LibraryEntry>> Library::entries() const {
  std::error_code ignored;
  if (!fs::is_regular_file(file_, ignored)) {
    return fail(ErrorCode::wrong_input,
                "there is no kernel library " + file_.string());
  }
  const auto work = [&]() -> Result<std::vector<LibraryEntry>> {
    auto database = Database::open(file_, SQLITE_OPEN_READONLY);
    if (!database) return std::unexpected(database.error());
    if (const auto done = database->execute(kWait); !done) {
      return std::unexpected(done.error());
    }
    const auto found = layout_of(*database);
    if (!found) return std::unexpected(found.error());
    if (*found != kLayout) return of_another_weft();
    auto query = database->prepare(
        "SELECT source, target, variant, origin, median_us, p10_us, p90_us, "
        "runs, over_eager, over_eager_low, over_eager_high, over_compile, "
        "over_compile_low, over_compile_high, floor_share, outdone, "
        "signature, wanted, device, policy, format, kept_us, uses "
        "FROM kernel ORDER BY key");
    if (!query) return std::unexpected(query.error());
    std::vector<LibraryEntry> entries;
    for (;;) {
      const auto row = query->step();
      if (!row) return std::unexpected(row.error());
      if (!*row) return entries;
      auto stored = stored_in(*query);
      if (!stored) continue;
      LibraryEntry& entry = entries.emplace_back();
      entry.stored = std::move(*stored);
      entry.key.signature = query->bytes(16);
      entry.key.target = query->bytes(17);
      entry.key.device = query->bytes(18);
      entry.key.policy = query->bytes(19);
      entry.key.format = static_cast<int>(query->integer(20));
      entry.stored_us = query->integer(21);
      entry.uses = query->integer(22);
    }
  };
  auto found = work();
  if (!found) return std::unexpected(explained(file_, found.error()));
  return found;
}

Result<std::optional<StoredKernel>> Library::find(const KernelKey& key) const {
  auto database = open();
  if (!database) return std::unexpected(explained(file_, database.error()));
  auto found = select(*database, key_text(key));
  if (!found) return std::unexpected(explained(file_, found.error()));
  return found;
}

Result<void> Library::keep(const KernelKey& key, std::string_view judged,
                           const std::optional<StoredKernel>& best,
                           const std::optional<StoredPattern>& pattern) const {
  const auto work = [&]() -> Result<void> {
    auto database = open();
    if (!database) return std::unexpected(database.error());
    // Locked before it is read: nobody else decides on what we have seen.
    if (auto done = database->execute("BEGIN IMMEDIATE"); !done) return done;
    const std::string id = key_text(key);
    const auto there = select(*database, id);
    if (!there) return std::unexpected(there.error());
    bool is_free = !*there;
    if (!is_free && (*there)->text == judged) {
      is_free = true;
      if (!best || best->text != judged) {
        if (auto done = erase(*database, id); !done) return done;
      }
    }
    if (best) {
      const bool is_same = *there && (*there)->text == best->text;
      const bool is_faster =
          !is_free && best->kernel.candidate.median_us <
                          (*there)->kernel.candidate.median_us;
      if (is_free || is_same || is_faster) {
        auto done = insert(*database, id, key, *best, clock_());
        if (!done) return done;
        done = trim(*database, "kernel", limits_.kernels_bytes);
        if (!done) return done;
        done = put_pattern(*database, id, is_same, pattern);
        if (!done) return done;
      }
    }
    if (auto done = erase_orphan_patterns(*database); !done) return done;
    return database->execute("COMMIT");
  };
  const auto done = work();
  if (!done) return std::unexpected(explained(file_, done.error()));
  return done;
}

/// Another kernel's pattern does not stay.
Result<void> Library::put_pattern(
    Database& database, const std::string& id, bool is_same_kernel,
    const std::optional<StoredPattern>& pattern) const {
  if (!pattern) {
    return is_same_kernel ? Result<void>() : erase_pattern(database, id);
  }
  if (auto done = store_pattern(database, id, *pattern, clock_()); !done) {
    return done;
  }
  return trim(database, "pattern", limits_.patterns_bytes);
}

Result<std::vector<StoredPattern>> Library::similar(
    const PatternQuery& query, const KernelKey& key) const {
  auto database = open();
  if (!database) return std::unexpected(explained(file_, database.error()));
  auto found =
      similar_patterns(*database, query, key_text(key), key.device, clock_());
  if (!found) return std::unexpected(explained(file_, found.error()));
  return found;
}

Result<std::optional<std::string>> Library::find_artefact(
    std::string_view key) const {
  const auto work = [&]() -> Result<std::optional<std::string>> {
    auto database = open();
    if (!database) return std::unexpected(database.error());
    auto query = database->prepare(
        "SELECT content, \"check\", used_us FROM made WHERE key = ?");
    if (!query) return std::unexpected(query.error());
    query->bind_text(1, key);
    const auto row = query->step();
    if (!row) return std::unexpected(row.error());
    if (!*row) return std::nullopt;
    std::string bytes(query->bytes(0));
    const std::string mark = artefact_mark(key, bytes);
    const bool is_own = !mark.empty() && mark == query->bytes(1);
    const bool is_fresh = clock_() - query->integer(2) < kUsedGrainUs;
    query->reset();
    if (!is_own) return std::nullopt;
    if (!is_fresh) {
      auto touch =
          database->prepare("UPDATE made SET used_us = ? WHERE key = ?");
      if (!touch) return std::unexpected(touch.error());
      touch->bind(1, clock_());
      touch->bind_text(2, key);
      // One that cannot be written is still read.
      [[maybe_unused]] const auto touched = touch->run();
    }
    return bytes;
  };
  auto found = work();
  if (!found) return std::unexpected(explained(file_, found.error()));
  return found;
}

Result<void> Library::store_artefact(std::string_view key,
                                     std::string_view bytes) const {
  const auto work = [&]() -> Result<void> {
    auto database = open();
    if (!database) return std::unexpected(database.error());
    if (auto done = database->execute("BEGIN IMMEDIATE"); !done) return done;
    auto query =
        database->prepare("INSERT OR REPLACE INTO made VALUES(?, ?, ?, ?, ?)");
    if (!query) return std::unexpected(query.error());
    const std::string check = artefact_mark(key, bytes);
    query->bind_text(1, key);
    query->bind_blob(2, bytes);
    query->bind_text(3, check);
    query->bind(4, clock_());
    query->bind(5, static_cast<std::int64_t>(bytes.size()));
    if (auto done = query->run(); !done) return done;
    if (auto done = trim(*database, "made", limits_.made_bytes); !done) {
      return done;
    }
    return database->execute("COMMIT");
  };
  const auto done = work();
  if (!done) return std::unexpected(explained(file_, done.error()));
  return done;
}

/// What was not used for longest goes, until the rest fits.
Result<void> Library::trim(Database& database, const char* table,
                           std::int64_t bytes_max) const {
  const std::string name = table;
  auto query = database.prepare(
      "DELETE FROM " + name +
      " WHERE rowid IN (SELECT rowid FROM (SELECT "
      "rowid, SUM(bytes) OVER (ORDER BY used_us DESC, rowid DESC) AS newer "
      "FROM " +
      name + ") WHERE newer > ?)");
  if (!query) return std::unexpected(query.error());
  query->bind(1, bytes_max);
  return query->run();
}

fs::path cache_folder() {
  if (const fs::path set = from_environment("XDG_CACHE_HOME"); !set.empty()) {
    return set / "weft";
  }
  const fs::path home = from_environment("HOME");
  return home.empty() ? fs::path() : home / ".cache/weft";
}

fs::path default_library() {
  if (const char* set = std::getenv("WEFT_LIBRARY")) return set;
  const fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / "library.db";
}

}  // namespace weft
