// `weft completion` and `weft manual`: the command line as CLI11 knows it,
// written as a shell's completion, a manual page, or a reference page.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weft {

/// `shell` is bash, zsh or fish.
std::string completion_script(const CLI::App& app, const std::string& shell);

/// `format` is man, markdown, operators (a page of what the compiler lowers) or
/// settings (the tables of the page about them).
std::string manual_text(const CLI::App& app, const std::string& format);

/// Tables of all settings: those of [run], from the flags of `weft run`, by
/// whether the current folder's file may have them, and those of [llm.NAME],
/// from config/llm_settings.hpp.
std::string settings_text(const CLI::App& run);

}  // namespace weft
