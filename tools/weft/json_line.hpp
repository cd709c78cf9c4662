// A line of --json.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>

namespace weft {

/// On standard output. Bytes that are no UTF-8, as a path may have, are U+FFFD
/// there: to dump() they are an exception.
inline void print_line(const nlohmann::json& line) {
  const auto replace = nlohmann::json::error_handler_t::replace;
  std::printf("%s\n", line.dump(-1, ' ', false, replace).c_str());
}

}  // namespace weft
