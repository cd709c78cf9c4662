// A list as one line of text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

inline std::string joined(const std::vector<std::string>& words,
                          std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

}  // namespace weft
