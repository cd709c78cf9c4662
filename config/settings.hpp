// What the user's settings say, and where each was said: TOML files, then the
// environment, then flags, the later the stronger. Only names, values and
// places here; what they mean is their readers' (config/llm_settings.hpp, the
// command line). Secrets are no settings: a setting names where one is.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"

namespace weft {

struct Setting {
  enum class Kind { text, integer, number, boolean, list };
  Kind kind = Kind::text;
  std::vector<std::string> values;  ///< one, or those of a list
  std::string origin;               ///< "weft.toml:12", "WEFT_RUN_JOBS"
  /// Of a file that lay in the current folder, and so perhaps a stranger's.
  bool from_folder = false;

  /// For people: a list with commas.
  std::string shown() const;
};

/// By dotted name: "run.jobs", "llm.mini.limits.calls_at_once".
using Settings = std::map<std::string, Setting>;

/// A TOML document's. wrong_input names `file` and the line.
Result<Settings> parse_settings(std::string_view toml, const std::string& file);

/// The value of an environment variable; empty: not set.
using Environment = std::function<std::string(const std::string& name)>;

/// This process's.
std::string process_environment(const std::string& name);

/// Which files are read, the weakest first.
struct SettingsFiles {
  std::filesystem::path user;    ///< ~/.config/weft/config.toml
  std::filesystem::path folder;  ///< weft.toml
  std::filesystem::path named;   ///< of --config: must be there; may be empty
};

/// By XDG_CONFIG_HOME or HOME, and the current folder.
SettingsFiles settings_files(const Environment& environment,
                             const std::filesystem::path& named);

/// All files' settings, the stronger's where several have one. wrong_input: a
/// file is malformed, or the named one is not there.
Result<Settings> read_settings(const SettingsFiles& files);

/// "llm.mini.model" -> "WEFT_LLM_MINI_MODEL".
std::string variable_of(std::string_view name);

/// Lets the variable of that name, if it is set, go before what files say.
void take_environment(Settings& settings, const std::string& name,
                      const Environment& environment);

}  // namespace weft
