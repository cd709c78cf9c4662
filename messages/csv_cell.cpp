#include "messages/csv_cell.hpp"

#include <algorithm>
#include <array>

#include "messages/shown_text.hpp"

namespace weft {
namespace {

/// Whether a spreadsheet may compute the text. Some programs skip blanks before
/// the first character, and take a full-width one (U+FF1D) for the ASCII one.
bool is_computed(std::string_view text) {
  constexpr std::array<std::string_view, 8> kFirst = {
      "=", "+", "-", "@", "\uFF1D", "\uFF0B", "\uFF0D", "\uFF20"};
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return false;
  text.remove_prefix(begin);
  return std::ranges::any_of(
      kFirst, [&](std::string_view first) { return text.starts_with(first); });
}

}  // namespace

std::string csv_cell(std::string_view text) {
  const std::string line = terminal_line(text);
  const std::string cell = (is_computed(line) ? "'" : "") + line;
  if (cell.find_first_of(",\"") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) {
    quoted += c;
    if (c == '"') quoted += '"';
  }
  return quoted + "\"";
}

}  // namespace weft
