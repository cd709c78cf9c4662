// JSON on standard output: of --json, and for people.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace weft {

/// In ASCII: a terminal would obey controls beyond it, and reorder its lines by
/// others. Bytes that are no UTF-8, as a path may have, are U+FFFD: to dump()
/// they are an exception.
inline std::string json_text(const nlohmann::json& value, int indent = -1) {
  return value.dump(indent, ' ', true,
                    nlohmann::json::error_handler_t::replace);
}

inline void print_line(const nlohmann::json& line) {
  std::printf("%s\n", json_text(line).c_str());
}

}  // namespace weft
