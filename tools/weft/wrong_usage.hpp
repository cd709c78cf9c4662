#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace weft {

/// The message for a command line that CLI11 refused. It names the fault and
/// the command's help. Examples are an unknown option and a missing argument.
std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error);

}  // namespace weft
