#include "tools/weft/command_tree.hpp"

#include <cstdlib>
#include <sstream>

namespace weft {
namespace {

/// "TEXT:{cpu,triton}": the values in braces.
std::vector<std::string> listed_values(const std::string& type) {
  std::vector<std::string> values;
  const std::size_t open = type.find('{');
  const std::size_t close = type.rfind('}');
  if (open == type.npos || close == type.npos || close < open) return values;
  std::istringstream in(type.substr(open + 1, close - open - 1));
  for (std::string value; std::getline(in, value, ',');) {
    values.push_back(value);
  }
  return values;
}

/// The type without validators' ranges: "INT:INT in [0 - 63]" is "INT".
std::string short_type(const CLI::Option& option,
                       const std::vector<std::string>& values) {
  if (!values.empty()) return "VALUE";
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

/// Defaults that this machine decides are written as on any machine.
std::string portable_default(const CLI::Option& option) {
  std::string text = option.get_default_str();
  if (option.check_lname("jobs") && !text.empty()) return "cores";
  if (const char* home = std::getenv("HOME");
      home != nullptr && *home != '\0' && text.starts_with(home)) {
    text.replace(0, std::string(home).size(), "~");
  }
  return text;
}

OptionText option_text(const CLI::Option& option) {
  OptionText text;
  text.is_positional = option.get_positional();
  text.is_required = option.get_required();
  text.description = option.get_description();
  if (text.is_positional) text.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) {
    text.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    text.names.push_back("--" + name);
  }
  if (option.get_type_size() != 0) {
    text.values = listed_values(option.get_type_name());
    text.value = short_type(option, text.values);
    text.default_value = portable_default(option);
  }
  return text;
}

CommandText command_text(const CLI::App& app, const std::string& path) {
  CommandText text;
  text.path = path;
  text.description = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) {
      text.options.push_back(option_text(*option));
    }
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    text.commands.push_back(
        command_text(*command, path + " " + command->get_name()));
  }
  return text;
}

}  // namespace

CommandText command_tree(const CLI::App& app) {
  return command_text(app, "weft");
}

}  // namespace weft
