// How settings reach the command line: each flag of a verb is a setting of the
// same name ([run] timing_ms is --timing-ms), and what is typed is stronger.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/llm_settings.hpp"
#include "config/settings.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace weft {

/// Everything that files and the environment say.
struct LoadedSettings {
  Settings settings;
  std::vector<LlmEndpoint> endpoints;
};
Result<LoadedSettings> load_settings(
    const std::optional<std::filesystem::path>& named);

/// Remarks for standard error, each once in a process.
void say_once(const std::vector<std::string>& remarks);

/// Once `verb`'s command line has been read, gives those flags that were not
/// typed what [`section`] says of them. A wrong setting is a usage error that
/// names its file and line.
void apply_settings(CLI::App& verb, const std::string& section,
                    const std::optional<std::filesystem::path>& named);

/// The flags of `verb` that are settings, by name: "timing_ms".
std::vector<std::string> setting_names(const CLI::App& verb);

}  // namespace weft
