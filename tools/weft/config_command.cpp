#include "tools/weft/config_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "messages/joined.hpp"
#include "messages/shown_text.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/settings_flags.hpp"

namespace weft {
namespace {

void print(const CommonFlags& common, const std::string& name,
           const std::string& value, const std::string& origin) {
  if (common.json) {
    const nlohmann::json line = {
        {"name", name}, {"value", value}, {"from", origin}};
    print_line(line);
  } else {
    std::printf("%-32s %-24s %s\n", name.c_str(),
                value.empty() ? "-" : terminal_line(value).c_str(),
                terminal_line(origin).c_str());
  }
}

}  // namespace

int config_command(const CommonFlags& common, CLI::App& verb,
                   const std::vector<std::string>& typed) {
  auto loaded = load_settings(common.config);
  if (!loaded) return report_error(common, loaded.error());
  for (const std::string& name : setting_names(verb)) {
    std::string flag = name;
    std::ranges::replace(flag, '_', '-');
    flag.insert(0, "--");
    CLI::Option* option = verb.get_option(flag);
    const std::string full = "run." + name;
    take_environment(loaded->settings, full, &process_environment);
    const auto found = loaded->settings.find(full);
    if (std::ranges::find(typed, flag) != typed.end()) {
      print(common, full, joined(option->results(), ","), flag);
    } else if (found != loaded->settings.end()) {
      print(common, full, found->second.shown(), found->second.origin);
    } else {
      const bool is_flag = option->get_items_expected_max() == 0;
      print(common, full, is_flag ? "false" : option->get_default_str(),
            "default");
    }
  }
  for (const auto& [name, setting] : loaded->settings) {
    if (!name.starts_with("llm.")) continue;
    print(common, name, setting.shown(), setting.origin);
  }
  return 0;
}

}  // namespace weft
