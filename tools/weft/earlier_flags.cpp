#include "tools/weft/earlier_flags.hpp"

#include <algorithm>
#include <string_view>

#include "config/earlier_settings.hpp"

namespace weft {
namespace {

/// "--random-seed" of "run.random_seed".
std::string flag_of(std::string_view setting) {
  std::string words(setting.substr(setting.find('.') + 1));
  std::ranges::replace(words, '_', '-');
  return "--" + words;
}

/// Today's name of a flag.
std::string flag_now(const std::string& flag, const std::string& verb) {
  if (verb == "simulate" && flag == "--seeds") return "--random-seeds";
  for (const EarlierSetting& earlier : kEarlierSettings) {
    if (flag == flag_of(earlier.before)) return flag_of(earlier.now);
  }
  return flag;
}

}  // namespace

std::vector<std::string> with_current_flags(
    std::vector<std::string> words, void (*say)(const std::string& line)) {
  const std::string verb = words.empty() ? "" : words.front();
  for (std::string& word : words) {
    if (word == "--") break;
    const std::string flag = word.substr(0, word.find('='));
    const std::string now = flag_now(flag, verb);
    if (now == flag) continue;
    say(flag + " is called " + now + " now");
    word.replace(0, flag.size(), now);
  }
  return words;
}

}  // namespace weft
