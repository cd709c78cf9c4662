// Names that settings of [run], and so flags, had in earlier versions of weft.
// They are still read, and a remark says the name of today.
#pragma once

#include <string_view>

namespace weft {

struct EarlierSetting {
  std::string_view before;
  std::string_view now;
};

inline constexpr EarlierSetting kEarlierSettings[] = {
    {"run.seed", "run.random_seed"},
};

/// Today's name of a setting.
constexpr std::string_view setting_now(std::string_view name) {
  for (const EarlierSetting& earlier : kEarlierSettings) {
    if (name == earlier.before) return earlier.now;
  }
  return name;
}

}  // namespace weft
