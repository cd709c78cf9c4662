#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace weft {

/// What is wrong with a command line that CLI11 refused, and which help has
/// more: an option that is given twice, a command or an option that does not
/// exist, an argument that is missing, a wrong value.
std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error);

}  // namespace weft
