#include "compiler/text/line_diff.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft {
namespace {

using Lines = std::vector<std::string_view>;

/// The table of common subsequences has that many entries on each side.
constexpr std::size_t kTableMax = 4'000;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct Edit {
  char sign;  ///< ' ', '-' or '+'
  std::string_view line;
};

/// Lengths of the longest common subsequences of all tails of both.
std::vector<std::vector<std::uint16_t>> common_tails(const Lines& a,
                                                     const Lines& b) {
  std::vector table(a.size() + 1, std::vector<std::uint16_t>(b.size() + 1));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      table[i][j] = a[i] == b[j]
                        ? static_cast<std::uint16_t>(table[i + 1][j + 1] + 1)
                        : std::max(table[i + 1][j], table[i][j + 1]);
    }
  }
  return table;
}

void add_changes(const Lines& a, const Lines& b, std::vector<Edit>& edits) {
  if (a.size() > kTableMax || b.size() > kTableMax) {
    for (const auto line : a) edits.push_back({'-', line});
    for (const auto line : b) edits.push_back({'+', line});
    return;
  }
  const auto table = common_tails(a, b);
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      edits.push_back({' ', a[i]});
      ++i, ++j;
    } else if (j == b.size() ||
               (i < a.size() && table[i + 1][j] >= table[i][j + 1])) {
      edits.push_back({'-', a[i++]});
    } else {
      edits.push_back({'+', b[j++]});
    }
  }
}

std::vector<Edit> edits_of(Lines a, Lines b) {
  std::vector<Edit> edits;
  std::size_t head = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) {
    edits.push_back({' ', a[head++]});
  }
  std::size_t tail = 0;
  while (head + tail < a.size() && head + tail < b.size() &&
         a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) {
    ++tail;
  }
  const auto middle = [&](const Lines& lines) {
    return Lines(lines.begin() + static_cast<std::ptrdiff_t>(head),
                 lines.end() - static_cast<std::ptrdiff_t>(tail));
  };
  add_changes(middle(a), middle(b), edits);
  for (std::size_t i = a.size() - tail; i < a.size(); ++i) {
    edits.push_back({' ', a[i]});
  }
  return edits;
}

}  // namespace

std::string line_diff(std::string_view before, std::string_view after,
                      std::size_t lines_max) {
  const auto edits = edits_of(lines_of(before), lines_of(after));
  std::string text;
  std::size_t count = 0;
  bool skipped = false;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const bool changes = edits[i].sign != ' ';
    const bool precedes = i + 1 < edits.size() && edits[i + 1].sign != ' ';
    if (!changes && !precedes) {
      skipped = true;
      continue;
    }
    if (count++ >= lines_max) return text + "…\n";
    if (skipped && !text.empty()) text += "…\n";
    skipped = false;
    text +=
        std::string(1, edits[i].sign) + " " + std::string(edits[i].line) + "\n";
  }
  return text;
}

}  // namespace weft
