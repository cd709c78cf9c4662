#include "messages/csv_cell.hpp"

namespace weft {

std::string csv_cell(std::string_view text) {
  constexpr std::string_view computed = "=+-@\t\r";
  const bool is_computed = !text.empty() && computed.contains(text.front());
  const std::string cell = (is_computed ? "'" : "") + std::string(text);
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) {
    quoted += c;
    if (c == '"') quoted += '"';
  }
  return quoted + "\"";
}

}  // namespace weft
