#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace weft {

/// What is wrong with a command line that CLI11 refused, where it says less
/// itself: an option that is given twice, a command or an option that does not
/// exist, an argument that is missing. nullopt: CLI11's message is enough.
std::optional<std::string> wrong_usage(const CLI::App& app,
                                       const CLI::ParseError& error);

}  // namespace weft
