// The kernel library's table of patterns: how language models' kernels won, and
// which of them fit another subgraph. A library that was begun before this
// table gets it with the first pattern; a weft that does not know it leaves it
// alone. Functions that store or erase are called within the library's
// transactions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/known_kernels.hpp"
#include "messages/result.hpp"
#include "runtime/store/sqlite.hpp"

namespace weft {

/// A pattern with its text; `pattern.change` is not looked at.
struct StoredPattern {
  WinningPattern pattern;
  std::string text;
};

/// How alike two sorted lists of features are, from 0 to 1: what both have, of
/// all that either has.
double similarity(const std::vector<std::string>& a,
                  const std::vector<std::string>& b);

/// Under the kernel's key, in another's place.
Result<void> store_pattern(Database& database, const std::string& key,
                           const StoredPattern& stored, std::int64_t now_us);

/// Removes the kernel's pattern, if it has one.
Result<void> erase_pattern(Database& database, const std::string& key);

/// Removes all patterns whose kernel is not in the library any more.
Result<void> erase_orphan_patterns(Database& database);

/// Those of other kernels that are alike enough, the most similar first. Those
/// of the same device come before equals. Notes that they were used, where the
/// file can be written.
Result<std::vector<StoredPattern>> similar_patterns(Database& database,
                                                    const PatternQuery& query,
                                                    const std::string& key,
                                                    const std::string& device,
                                                    std::int64_t now_us);

}  // namespace weft
