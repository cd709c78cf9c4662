#include "tools/weft/fork_settings.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "tools/weft/earlier_flags.hpp"
#include "tools/weft/run_flags.hpp"
#include "tools/weft/run_python_driver.hpp"

namespace weft {
namespace {

/// They say what a run found when it began: its machine, its providers.
constexpr std::string_view kFixed[] = {"target",  "device",     "devices",
                                       "library", "no-library", "llm"};

std::string names_of(const CLI::App& app) {
  std::string names;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_single_name();
    if (name == "help" || std::ranges::find(kFixed, name) != std::end(kFixed)) {
      continue;
    }
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

/// "timing_ms=300" as it would be typed: "--timing-ms=300". An earlier name of
/// a setting becomes its name of today.
Result<std::string> as_flag(const CLI::App& app, const std::string& setting) {
  const auto equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    return fail(ErrorCode::wrong_input,
                "'" + setting + "' is no setting: it is NAME=VALUE");
  }
  std::string given = setting.substr(0, equals);
  std::ranges::replace(given, '_', '-');
  const std::string name = option_now(given);
  if (name != given) {
    std::fprintf(stderr, "weft: --%s is called --%s now\n", given.c_str(),
                 name.c_str());
  }
  if (std::ranges::find(kFixed, name) != std::end(kFixed)) {
    return fail(ErrorCode::wrong_input,
                "'" + name +
                    "' is settled when a run begins: begin another with 'weft "
                    "run'");
  }
  if (!app.get_option_no_throw("--" + name)) {
    return fail(ErrorCode::wrong_input, "there is no setting '" + name +
                                            "': there are " + names_of(app));
  }
  return "--" + name + setting.substr(equals);
}

}  // namespace

Result<RunOptions> changed_options(const RunOptions& recorded,
                                   const std::vector<std::string>& settings) {
  RunOptions options;
  CLI::App app("settings");
  add_run_flags(app, options);
  app.add_option("--jobs", options.jobs)->check(CLI::Range(1, 256));
  options = recorded;  // flags bring defaults of their own
  std::vector<std::string> words;
  for (const std::string& setting : settings) {
    auto word = as_flag(app, setting);
    if (!word) return std::unexpected(word.error());
    words.push_back(std::move(*word));
  }
  try {
    std::ranges::reverse(words);  // as CLI11 takes them
    app.parse(words);
  } catch (const CLI::Error& error) {
    return fail(ErrorCode::wrong_input, error.what());
  }
  const auto valid = check_one_mode(options);
  if (!valid) return std::unexpected(valid.error());
  return options;
}

}  // namespace weft
