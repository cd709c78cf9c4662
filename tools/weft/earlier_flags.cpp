#include "tools/weft/earlier_flags.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace weft {
namespace {

struct EarlierFlag {
  std::string_view verb;  ///< empty: any
  std::string_view before;
  std::string_view now;
};
constexpr EarlierFlag kFlags[] = {
    {"", "--seed", "--random-seed"},
    {"simulate", "--seeds", "--random-seeds"},
};

struct EarlierWord {
  std::string_view flag;
  std::string_view before;
  std::string_view now;
};
constexpr EarlierWord kWords[] = {
    {"--accept", "near-eager", "kernelbench"},
};

/// "--seed=1" -> {"--seed", "=1"}.
std::pair<std::string, std::string> split(const std::string& word) {
  const auto equals = word.find('=');
  if (equals == word.npos) return {word, ""};
  return {word.substr(0, equals), word.substr(equals)};
}

/// "run.random_seed" of "--random-seed".
std::string setting_of(std::string_view flag) {
  std::string words(flag.substr(2));
  std::ranges::replace(words, '-', '_');
  return "run." + words;
}

}  // namespace

std::vector<std::string> with_current_flags(
    std::vector<std::string> words, void (*say)(const std::string& line)) {
  const std::string verb = words.empty() ? "" : words.front();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") break;
    auto [name, value] = split(words[i]);
    for (const EarlierFlag& flag : kFlags) {
      const bool is_meant = flag.verb.empty() || flag.verb == verb;
      if (!is_meant || flag.before != name) continue;
      say(name + " is called " + std::string(flag.now) + " now");
      name = flag.now;
      words[i] = name + value;
    }
    const bool has_value = !value.empty();
    if (!has_value && i + 1 == words.size()) break;
    const std::string given = has_value ? value.substr(1) : words[i + 1];
    for (const EarlierWord& word : kWords) {
      if (word.flag != name || word.before != given) continue;
      say(name + " " + given + " is called " + name + " " +
          std::string(word.now) + " now");
      if (has_value) {
        words[i] = name + "=" + std::string(word.now);
      } else {
        words[i + 1] = word.now;
      }
    }
  }
  return words;
}

std::vector<std::string> renamed_settings() {
  std::vector<std::string> names;
  for (const EarlierFlag& flag : kFlags) {
    if (flag.verb.empty()) names.push_back(setting_of(flag.now));
  }
  return names;
}

std::string earlier_setting(const std::string& name) {
  for (const EarlierFlag& flag : kFlags) {
    if (!flag.verb.empty() || name != setting_of(flag.now)) continue;
    return setting_of(flag.before);
  }
  return "";
}

}  // namespace weft
