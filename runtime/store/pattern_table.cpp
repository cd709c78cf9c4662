#include "runtime/store/pattern_table.hpp"

#include <algorithm>

#include "embedded/runtime/store/pattern.sql"
#include "runtime/store/text_lines.hpp"

namespace weft {
namespace {

/// Subgraphs with a lower similarity count as different.
constexpr double kSimilarityMin = 0.3;
/// Factor on the similarity of a pattern from another device.
constexpr double kOtherDevice = 0.7;
/// Longest text of a row. weft writes no longer ones.
constexpr std::size_t kPatternBytesMax = std::size_t{64} << 10;
/// Most patterns of one reply.
constexpr int kPatternCountMax = 16;
/// Resolution of a time of use, as for kernels.
constexpr std::int64_t kPatternGrainUs = std::int64_t{24} * 3600 * 1'000'000;

std::vector<std::string> features_in(std::string_view text) {
  std::vector<std::string> lines = lines_in(text);
  std::ranges::sort(lines);
  return lines;
}

Result<bool> has_pattern_table(Database& database) {
  auto query = database.prepare(
      "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'pattern'");
  if (!query) return std::unexpected(query.error());
  return query->step();
}

struct RankedPattern {
  double score = 0;
  double over_eager = 0;
  std::string key;
  bool was_used_now = false;
};

Result<std::vector<RankedPattern>> ranked_patterns(Database& database,
                                                   const PatternQuery& query,
                                                   const std::string& key,
                                                   const std::string& device,
                                                   std::int64_t now_us) {
  auto rows = database.prepare(
      "SELECT key, device, features, over_eager, used_us FROM pattern "
      "WHERE platform = ?1 AND key <> ?2");
  if (!rows) return std::unexpected(rows.error());
  rows->bind_text(1, query.platform);
  rows->bind_text(2, key);
  std::vector<RankedPattern> all;
  for (;;) {
    const auto row = rows->step();
    if (!row) return std::unexpected(row.error());
    if (!*row) break;
    if (rows->bytes(2).size() > kPatternBytesMax) continue;
    const double alike =
        similarity(query.features, features_in(rows->bytes(2)));
    if (alike < kSimilarityMin) continue;
    const bool is_here = rows->bytes(1) == device;
    all.push_back({is_here ? alike : kOtherDevice * alike, rows->real(3),
                   std::string(rows->bytes(0)),
                   now_us - rows->integer(4) < kPatternGrainUs});
  }
  std::ranges::sort(all, [](const RankedPattern& a, const RankedPattern& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.over_eager != b.over_eager) return a.over_eager > b.over_eager;
    return a.key < b.key;
  });
  return all;
}

/// False where the row is too long.
bool read_pattern(const Statement& row, StoredPattern& stored) {
  std::size_t bytes = 0;
  for (int column = 0; column < 7; ++column) bytes += row.bytes(column).size();
  if (bytes > kPatternBytesMax) return false;
  WinningPattern& pattern = stored.pattern;
  pattern.type = row.bytes(0);
  pattern.inputs = row.bytes(1);
  pattern.device = row.bytes(2);
  pattern.platform = row.bytes(3);
  pattern.features = features_in(row.bytes(4));
  pattern.idea = row.bytes(5);
  stored.text = row.bytes(6);
  pattern.is_whole = row.integer(7) != 0;
  pattern.over_eager = row.real(8);
  pattern.over_others = row.real(9);
  pattern.gain = row.real(10);
  return true;
}

}  // namespace

double similarity(const std::vector<std::string>& a,
                  const std::vector<std::string>& b) {
  std::vector<std::string> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  const std::size_t all = a.size() + b.size() - both.size();
  return all == 0 ? 0
                  : static_cast<double>(both.size()) / static_cast<double>(all);
}

Result<void> store_pattern(Database& database, const std::string& key,
                           const StoredPattern& stored, std::int64_t now_us) {
  if (auto done = database.execute(embedded::runtime_store_pattern); !done) {
    return done;
  }
  auto query = database.prepare(
      "INSERT OR REPLACE INTO pattern VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, "
      "?9, ?10, ?11, ?12, ?13, ?13, ?14)");
  if (!query) return std::unexpected(query.error());
  const WinningPattern& pattern = stored.pattern;
  const std::string features = lines_text(pattern.features);
  const std::string_view texts[] = {
      key,      pattern.type, pattern.inputs, pattern.device, pattern.platform,
      features, pattern.idea, stored.text};
  int column = 0;
  std::size_t bytes = 0;
  for (const std::string_view text : texts) {
    query->bind_text(++column, text);
    bytes += text.size();
  }
  query->bind(9, pattern.is_whole);
  query->bind_real(10, pattern.over_eager);
  query->bind_real(11, pattern.over_others);
  query->bind_real(12, pattern.gain);
  query->bind(13, now_us);
  query->bind(14, static_cast<std::int64_t>(bytes));
  return query->run();
}

Result<void> erase_pattern(Database& database, const std::string& key) {
  const auto there = has_pattern_table(database);
  if (!there) return std::unexpected(there.error());
  if (!*there) return {};
  auto query = database.prepare("DELETE FROM pattern WHERE key = ?");
  if (!query) return std::unexpected(query.error());
  query->bind_text(1, key);
  return query->run();
}

Result<void> erase_orphan_patterns(Database& database) {
  const auto there = has_pattern_table(database);
  if (!there) return std::unexpected(there.error());
  if (!*there) return {};
  return database.execute(
      "DELETE FROM pattern WHERE key NOT IN (SELECT key FROM kernel)");
}

Result<std::vector<StoredPattern>> similar_patterns(Database& database,
                                                    const PatternQuery& query,
                                                    const std::string& key,
                                                    const std::string& device,
                                                    std::int64_t now_us) {
  const auto there = has_pattern_table(database);
  if (!there) return std::unexpected(there.error());
  if (!*there || query.features.empty()) return std::vector<StoredPattern>();
  const auto found = ranked_patterns(database, query, key, device, now_us);
  if (!found) return std::unexpected(found.error());
  const auto count_max = static_cast<std::size_t>(
      std::clamp(query.count_max, 0, kPatternCountMax));
  std::vector<StoredPattern> patterns;
  for (const RankedPattern& one : *found) {
    if (patterns.size() == count_max) break;
    auto row = database.prepare(
        "SELECT type, inputs, device, platform, features, idea, change, "
        "is_whole, over_eager, over_others, gain FROM pattern WHERE key = ?");
    if (!row) return std::unexpected(row.error());
    row->bind_text(1, one.key);
    const auto has_row = row->step();
    if (!has_row) return std::unexpected(has_row.error());
    StoredPattern stored;
    if (!*has_row || !read_pattern(*row, stored)) continue;
    row->reset();
    patterns.push_back(std::move(stored));
    if (one.was_used_now) continue;
    auto touch =
        database.prepare("UPDATE pattern SET used_us = ? WHERE key = ?");
    if (!touch) return std::unexpected(touch.error());
    touch->bind(1, now_us);
    touch->bind_text(2, one.key);
    // One that cannot be written is still read.
    [[maybe_unused]] const auto touched = touch->run();
  }
  return patterns;
}

}  // namespace weft
