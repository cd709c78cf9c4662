// Names that are like a mistyped one, for messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Letters to add, take away or change (Levenshtein's distance).
inline std::size_t edit_distance(std::string_view typed,
                                 std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < typed.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t changed = diagonal + (typed[i] != other[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// The name that was probably meant: at most a third of its letters differ.
/// Empty: none is so near.
inline std::string nearest_name(std::string_view typed,
                                const std::vector<std::string>& names) {
  std::string nearest;
  std::size_t least = typed.size() + 1;
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(typed, name);
    const std::size_t letters = std::max(typed.size(), name.size());
    if (distance < least && distance <= std::max<std::size_t>(1, letters / 3)) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace weft
