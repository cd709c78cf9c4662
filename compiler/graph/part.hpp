// A module in the captured model, and the values other than tensors that its
// forward() depended on. Plain data; docs/reference/graph.md explains each
// field.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// Texts are Python's, as repr() writes them; of a class or a function, its
/// name.
struct Part {
  std::string module;  ///< its path; "" is the model itself
  std::string kind;    ///< its class; one of the file's own begins with a dot
  std::vector<std::string> hooks;
  std::int64_t size = 0;  ///< modules right in it
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string> absent;
  std::vector<std::string> empty;
  bool operator==(const Part&) const = default;
};

}  // namespace weft
