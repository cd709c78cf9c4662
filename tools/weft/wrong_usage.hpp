#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace weft {

/// What is wrong with a command line that CLI11 refused, where it says less
/// itself: an option that is given twice, a verb that there is none of.
/// nullopt: what CLI11 says will do.
std::optional<std::string> wrong_usage(const CLI::App& app);

}  // namespace weft
