#include "config/settings.hpp"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>

#include "config/earlier_settings.hpp"
#include "config/folder_settings.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// A file of settings is written by hand.
constexpr std::uintmax_t kFileBytesMax = 1 << 20;
/// Each dot in a key nests a table, and the parser recurses: too many would use
/// up the stack. Its limit is on nested values only.
constexpr std::ptrdiff_t kDotsMax = 4'096;

std::string position_text(const std::string& file,
                          const toml::source_region& source) {
  return file + ":" + std::to_string(source.begin.line);
}

std::string number_text(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

/// One value as text, with its kind; nothing for what is no scalar.
std::optional<std::pair<Setting::Kind, std::string>> scalar(
    const toml::node& node) {
  using Kind = Setting::Kind;
  if (const auto* text = node.as_string()) return {{Kind::text, text->get()}};
  if (const auto* whole = node.as_integer()) {
    return {{Kind::integer, std::to_string(whole->get())}};
  }
  if (const auto* number = node.as_floating_point()) {
    return {{Kind::number, number_text(number->get())}};
  }
  if (const auto* flag = node.as_boolean()) {
    return {{Kind::boolean, flag->get() ? "true" : "false"}};
  }
  return std::nullopt;
}

std::unexpected<Error> no_value(const std::string& where,
                                const std::string& name) {
  return fail(ErrorCode::wrong_input,
              where + ": " + name +
                  " is no text, number, true, false or list of these");
}

Result<void> flatten(const toml::table& table, const std::string& prefix,
                     const std::string& file, Settings& settings) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const std::string where = position_text(file, key.source());
    if (const auto* inner = node.as_table()) {
      auto done = flatten(*inner, name + ".", file, settings);
      if (!done) return done;
      continue;
    }
    Setting setting;
    setting.origin = where;
    if (const auto* list = node.as_array()) {
      setting.kind = Setting::Kind::list;
      for (const toml::node& item : *list) {
        const auto value = scalar(item);
        if (!value) return no_value(where, name);
        setting.values.push_back(value->second);
      }
    } else if (const auto value = scalar(node)) {
      setting.kind = value->first;
      setting.values.push_back(value->second);
    } else {
      return no_value(where, name);
    }
    settings[name] = std::move(setting);
  }
  return {};
}

Result<std::string> read_bytes(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (!error && size > kFileBytesMax) {
    return fail(ErrorCode::wrong_input,
                file.string() + " is too large for a file of settings");
  }
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in.good() && !in.eof()) {
    return fail(ErrorCode::wrong_input, "cannot read " + file.string());
  }
  return bytes;
}

constexpr std::string_view kRunSection = "run.";

/// "jobs" of "run.jobs"; empty: the setting is in another section.
std::string_view run_setting(std::string_view name) {
  return name.starts_with(kRunSection) ? name.substr(kRunSection.size()) : "";
}

/// Whether the setting costs money, loosens a limit, opens a port or the
/// sandbox, or names files to read, to write or to send.
bool is_of_user(std::string_view name, const Setting& setting) {
  static constexpr std::string_view own[] = {
      "classes",          "llm",          "llm_groups",
      "llm_fuses",        "rounds",       "samples",
      "search",           "prompts",      "no_llm_cache",
      "library",          "memory_gib",   "capture_seconds",
      "call_seconds",     "listen",       "keys",
      "no_local",         "node_seconds", "sandbox",
      "untrusted_problem"};
  if (name.starts_with("llm.")) return true;
  if (std::ranges::find(own, run_setting(name)) != std::end(own)) return true;
  return name == "run.seeds" &&
         std::ranges::any_of(setting.values, [](std::string_view value) {
           return value.contains("llm");
         });
}

}  // namespace

bool may_lie_in_folder(std::string_view name, const Setting& setting) {
  static constexpr std::string_view harmless[] = {"accept",
                                                  "autotune_baseline",
                                                  "choice",
                                                  "device",
                                                  "devices",
                                                  "dynamic_batch",
                                                  "dynamic_dim",
                                                  "fast_sync",
                                                  "final_timing_ms",
                                                  "jobs",
                                                  "mode",
                                                  "no_compile_baseline",
                                                  "no_extern",
                                                  "no_library",
                                                  "precision",
                                                  "random_seed",
                                                  "rounding",
                                                  "seeds",
                                                  "target",
                                                  "timing_ms",
                                                  "train",
                                                  "variants"};
  if (is_budget(name)) return true;  // the lowest counts
  if (name == "run.untrusted_problem") return setting.shown() == "true";
  return std::ranges::find(harmless, run_setting(name)) != std::end(harmless) &&
         !is_of_user(name, setting);
}

std::string Setting::shown() const {
  std::string text;
  for (const std::string& value : values) {
    text += (text.empty() ? "" : ",") + value;
  }
  return text;
}

Result<Settings> parse_settings(std::string_view text,
                                const std::string& file) {
  if (std::ranges::count(text, '.') > kDotsMax) {
    return fail(ErrorCode::wrong_input,
                file + " has too many dots for a file of settings");
  }
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    return fail(ErrorCode::wrong_input,
                position_text(file, parsed.error().source()) + ": " +
                    std::string(parsed.error().description()));
  }
  Settings settings;
  const auto done = flatten(parsed.table(), "", file, settings);
  if (!done) return std::unexpected(done.error());
  return settings;
}

std::string process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

SettingsFiles settings_files(const Environment& environment,
                             const fs::path& named) {
  SettingsFiles files;
  const std::string config = environment("XDG_CONFIG_HOME");
  const std::string home = environment("HOME");
  if (!config.empty()) {
    files.user = fs::path(config) / "weft" / "config.toml";
  } else if (!home.empty()) {
    files.user = fs::path(home) / ".config" / "weft" / "config.toml";
  }
  files.folder = "weft.toml";
  files.named = named;
  return files;
}

bool is_budget(std::string_view name) {
  static constexpr std::string_view budgets[] = {
      "run.budget_s", "run.budget_usd", "run.budget_tokens",
      "run.subgraph_budget_usd", "run.subgraph_budget_tokens"};
  return std::ranges::find(budgets, name) != std::end(budgets);
}

bool is_lower(const Setting& setting, const Setting& other) {
  const auto number = [](const Setting& one) -> double {
    const std::string text = one.shown();
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    return text.empty() || *end != '\0' ? std::nan("") : value;
  };
  return number(setting) < number(other);
}

Result<Settings> read_settings(const SettingsFiles& files) {
  std::vector<std::string> ignored;
  return read_settings(files, ignored);
}

Result<Settings> read_settings(const SettingsFiles& files,
                               std::vector<std::string>& remarks) {
  Settings all;
  std::error_code error;
  for (const fs::path& file : {files.user, files.folder, files.named}) {
    if (file.empty()) continue;
    const bool there = fs::is_regular_file(file, error);
    if (!there && file == files.named) {
      return fail(ErrorCode::wrong_input,
                  "there is no file of settings " + file.string());
    }
    if (!there) continue;
    const auto bytes = read_bytes(file);
    if (!bytes) return std::unexpected(bytes.error());
    auto settings = parse_settings(*bytes, file.string());
    if (!settings) return settings;
    for (auto& [given, setting] : *settings) {
      const std::string name(setting_now(given));
      if (name != given) {
        remarks.push_back(setting.origin + ": " + given + " is called " + name +
                          " now");
        if (settings->contains(name)) continue;
      }
      // Who names the file himself trusts it.
      setting.from_folder = file == files.folder && file != files.named;
      if (setting.from_folder && is_of_user(name, setting) &&
          !may_lie_in_folder(name, setting)) {
        remarks.push_back(setting.origin + ": " + name + " is ignored: " +
                          "this file may have come with somebody's files. "
                          "Set it in " +
                          files.user.string() +
                          ", or name the file with --config");
        continue;
      }
      const auto before = all.find(name);
      const bool holds = before != all.end() && is_budget(name) &&
                         is_lower(before->second, setting);
      if (!holds) all[name] = std::move(setting);
    }
  }
  return all;
}

std::string variable_of(std::string_view name) {
  std::string variable = "WEFT_";
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    variable += std::isalnum(letter) != 0
                    ? static_cast<char>(std::toupper(letter))
                    : '_';
  }
  return variable;
}

void take_environment(Settings& settings, const std::string& name,
                      const Environment& environment) {
  const std::string variable = variable_of(name);
  std::string value = environment(variable);
  if (value.empty()) return;
  Setting setting{Setting::Kind::text, {std::move(value)}, variable, false};
  const auto before = settings.find(name);
  const bool holds = before != settings.end() && is_budget(name) &&
                     is_lower(before->second, setting);
  if (!holds) settings[name] = std::move(setting);
}

}  // namespace weft
