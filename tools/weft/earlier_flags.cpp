#include "tools/weft/earlier_flags.hpp"

#include <algorithm>
#include <string_view>

#include "config/earlier_settings.hpp"

namespace weft {
namespace {

/// Today's name of a flag.
std::string flag_now(const std::string& flag, const std::string& verb) {
  if (verb == "simulate" && flag == "--seeds") return "--random-seeds";
  if (!flag.starts_with("--")) return flag;
  return "--" + option_now(flag.substr(2));
}

}  // namespace

std::string option_now(const std::string& name) {
  std::string setting = "run." + name;
  std::ranges::replace(setting, '-', '_');
  std::string now(setting_now(setting));
  if (now == setting) return name;
  now.erase(0, now.find('.') + 1);
  std::ranges::replace(now, '_', '-');
  return now;
}

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
