// `weft --help` and `weft` without a command: commands in groups, on one
// screen.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string_view>

namespace weft {

/// Commands that belong together, in the order of the help.
struct CommandGroup {
  std::string_view title;
  std::span<const std::string_view> commands;
};

std::span<const CommandGroup> command_groups();

/// Has `app` print its commands in groups. Call this before commands are added:
/// they inherit the formatter, which leaves their own help as CLI11 writes it.
void set_grouped_help(CLI::App& app);

/// What to do first, for a user who named no command.
const char* first_steps();

}  // namespace weft
