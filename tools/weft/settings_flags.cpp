#include "tools/weft/settings_flags.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "config/earlier_settings.hpp"
#include "config/folder_settings.hpp"
#include "messages/shown_text.hpp"
#include "runtime/sandbox/secret_variables.hpp"
#include "tools/weft/envelope_format.hpp"

namespace weft {
namespace {

/// Flags that concern a single call of weft. Which Python runs is no setting
/// either: a weft.toml that came with somebody's code could name any program.
/// Nor is the sandbox: only a flag or WEFT_SANDBOX_MODE turns it off.
constexpr std::string_view kNoSettings[] = {
    "help",   "config",   "out",   "json", "verbose", "quiet",
    "python", "describe", "graph", "yes",  "sandbox", "fleet"};

std::string setting_of(const CLI::Option& option) {
  std::string name = option.get_single_name();
  std::ranges::replace(name, '-', '_');
  return name;
}

bool is_setting(const CLI::Option& option) {
  return !option.get_lnames().empty() &&
         std::ranges::find(kNoSettings, option.get_single_name()) ==
             std::end(kNoSettings);
}

/// Something that was typed, and that cannot stand beside this.
bool is_overruled(const CLI::Option& option) {
  return option.count() > 0 ||
         std::ranges::any_of(option.get_excludes(), [](const auto* other) {
           return other->count() > 0;
         });
}

[[noreturn]] void reject(const std::string& message) {
  throw CLI::ParseError(terminal_paragraph(message),
                        CLI::ExitCodes::ValidationError);
}

void give(CLI::Option& option, const Setting& setting) {
  const bool is_flag = option.get_items_expected_max() == 0;
  try {
    if (is_flag) {
      const std::string value = setting.shown();
      if (value != "true" && value != "false") {
        reject(setting.origin + ": " + setting_of(option) +
               " is true or false, not '" + value + "'");
      }
      if (value == "false") return;
      option.add_result(option.get_flag_value(option.get_single_name(), ""));
    } else {
      for (const std::string& value : setting.values) option.add_result(value);
    }
    option.run_callback();
  } catch (const CLI::ValidationError& error) {
    reject(setting.origin + ": " + error.what());
  } catch (const CLI::ConversionError& error) {
    reject(setting.origin + ": " + error.what());
  }
}

/// The section's settings that no flag bears the name of.
void reject_unknown(const CLI::App& verb, const std::string& section,
                    const Settings& settings) {
  const std::vector<std::string> names = setting_names(verb);
  const std::string start = section + ".";
  for (auto at = settings.lower_bound(start);
       at != settings.end() && at->first.starts_with(start); ++at) {
    const std::string name = at->first.substr(start.size());
    if (std::ranges::find(names, name) == names.end()) {
      reject(at->second.origin + ": there is no setting " + at->first +
             ": 'weft config' lists those there are");
    }
  }
}

/// The same of the environment's.
void reject_unknown_variables(const CLI::App& verb,
                              const std::string& section) {
  std::set<std::string> known;
  for (const std::string& name : setting_names(verb)) {
    known.insert(variable_of(section + "." + name));
  }
  for (const EarlierSetting& earlier : kEarlierSettings) {
    known.insert(variable_of(earlier.before));
  }
  const std::string start = variable_of(section + ".");
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view current = *at;
    const std::string name(current.substr(0, current.find('=')));
    if (!name.starts_with(start) || known.contains(name)) continue;
    reject(name +
           ": there is no such setting: 'weft config' lists those there are");
  }
}

/// Of a budget that was typed the setting counts where that is lower.
bool is_lower_budget(const CLI::Option& option, const std::string& name,
                     const Setting& setting) {
  if (!is_budget(name) || option.count() == 0) return false;
  const Setting typed{Setting::Kind::text, option.results(), "", false};
  return is_lower(setting, typed);
}

/// Variables of the environment by the settings' earlier names.
void take_earlier_variables(Settings& settings) {
  for (const EarlierSetting& earlier : kEarlierSettings) {
    Settings given;
    take_environment(given, std::string(earlier.before), &process_environment);
    for (auto& [before, setting] : given) {
      say_once({setting.origin + ": " + before + " is called " +
                std::string(earlier.now) + " now"});
      settings[std::string(earlier.now)] = std::move(setting);
    }
  }
}

}  // namespace

void say_once(const std::vector<std::string>& remarks) {
  static std::set<std::string> said_before;
  for (const std::string& remark : remarks) {
    if (!said_before.insert(remark).second) continue;
    std::fprintf(stderr, "weft: %s\n", terminal_line(remark).c_str());
  }
}

Result<LoadedSettings> load_settings(
    const std::optional<std::filesystem::path>& named) {
  const Environment environment = &process_environment;
  std::vector<std::string> remarks;
  auto settings =
      read_settings(settings_files(environment, named.value_or("")), remarks);
  say_once(remarks);
  if (!settings) return std::unexpected(settings.error());
  take_earlier_variables(*settings);
  for (const auto& [name, setting] : *settings) {
    if (name.starts_with("run.") || name.starts_with("llm.")) continue;
    return fail(ErrorCode::wrong_input,
                setting.origin + ": there is no setting " + name +
                    ": there are those of [run] and [llm.NAME]");
  }
  auto endpoints = llm_endpoints(*settings, environment);
  if (!endpoints) return std::unexpected(endpoints.error());
  for (const LlmEndpoint& endpoint : *endpoints) {
    if (!endpoint.key_env.empty()) keep_from_processes(endpoint.key_env);
  }
  return LoadedSettings{std::move(*settings), std::move(*endpoints)};
}

void apply_settings(CLI::App& verb, const std::string& section,
                    const std::optional<std::filesystem::path>& named) {
  auto loaded = load_settings(named);
  if (!loaded) reject(loaded.error().message);
  reject_unknown(verb, section, loaded->settings);
  reject_unknown_variables(verb, section);
  // What was typed is known before anything is added to it.
  std::vector<std::pair<CLI::Option*, Setting>> given;
  for (CLI::Option* option : verb.get_options()) {
    if (!is_setting(*option)) continue;
    const std::string name = section + "." + setting_of(*option);
    take_environment(loaded->settings, name, &process_environment);
    const auto found = loaded->settings.find(name);
    if (found == loaded->settings.end()) continue;
    if (found->second.from_folder && !may_lie_in_folder(name, found->second)) {
      reject(found->second.origin + ": " + name +
             " may not be set by the current folder's file");
    }
    if (is_lower_budget(*option, name, found->second)) {
      say_once({option->get_name() + ": " + found->second.origin +
                " has a lower budget, " + found->second.shown() +
                ", which holds"});
      option->clear();
    }
    if (is_overruled(*option)) continue;
    given.emplace_back(option, found->second);
  }
  for (const auto& [option, setting] : given) give(*option, setting);
}

std::vector<std::string> setting_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    if (is_setting(*option)) names.push_back(setting_of(*option));
  }
  return names;
}

}  // namespace weft
