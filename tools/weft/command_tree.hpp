// The command line as plain data, read from CLI11: what completion and the
// manual are written from.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace weft {

struct OptionText {
  std::vector<std::string> names;   ///< "-q", "--quiet"; a positional's name
  std::string value;                ///< "FILE"; empty: takes none
  std::vector<std::string> values;  ///< all that it takes, if they are few
  std::string default_value;
  std::string description;
  bool is_positional = false;
  bool is_required = false;
};

struct CommandText {
  std::string path;  ///< "weft llm check"
  std::string description;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

/// Hidden options and commands are left out.
CommandText command_tree(const CLI::App& app);

}  // namespace weft
