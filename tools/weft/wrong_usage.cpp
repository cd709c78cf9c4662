#include "tools/weft/wrong_usage.hpp"

#include <optional>
#include <vector>

#include "messages/nearest.hpp"

namespace weft {
namespace {

/// One that was given again and takes a single value; null: there is none.
const CLI::Option* doubled_option(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const int most = option->get_items_expected_max();
    if (option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw &&
        most == 1 && option->count() > 1) {
      return option;
    }
  }
  for (const CLI::App* command : app.get_subcommands()) {
    if (const CLI::Option* option = doubled_option(*command)) return option;
  }
  return nullptr;
}

/// "there is no KIND 'WORD'; did you mean NEAREST? ('weft --help' lists all)"
std::string no_such(const std::string& kind, const std::string& word,
                    const std::vector<std::string>& names,
                    const std::string& command) {
  const std::string nearest = nearest_name(word, names);
  return "there is no " + kind + " '" + word + "'" +
         (nearest.empty() ? ":" : "; did you mean " + nearest + "?") + " '" +
         command + " --help' lists all";
}

/// "weft run", however the program was called.
std::string name_of(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? "weft" : name_of(*parent) + " " + app.get_name();
}

void add_option_names(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      names.push_back("--" + name);
  }
}

/// The first option that a command does not have.
std::optional<std::string> unknown_option(const CLI::App& app) {
  for (const std::string& word : app.remaining()) {
    if (!word.starts_with('-')) continue;
    std::vector<std::string> names;
    for (const CLI::App* one = &app; one != nullptr; one = one->get_parent())
      add_option_names(*one, names);
    const std::string option = word.substr(0, word.find('='));
    return no_such("option", option, names, name_of(app));
  }
  for (const CLI::App* command : app.get_subcommands()) {
    if (auto unknown = unknown_option(*command)) return unknown;
  }
  return std::nullopt;
}

/// The command that was given, of a command the part of it.
const CLI::App& given_command(const CLI::App& app) {
  const auto given = app.get_subcommands();
  return given.empty() ? app : given_command(*given.front());
}

/// "right is required (Another run directory); 'weft diff --help' lists all".
std::string explained(const CLI::App& command, const CLI::ParseError& error) {
  std::string text = error.what();
  if (error.get_exit_code() ==
      static_cast<int>(CLI::ExitCodes::RequiredError)) {
    const std::string name = text.substr(0, text.find(' '));
    if (const CLI::Option* option = command.get_option_no_throw(name)) {
      text += " (" + option->get_description() + ")";
    }
  }
  return text + "; '" + name_of(command) + " --help' lists all";
}

}  // namespace

std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
  if (const CLI::Option* doubled = doubled_option(app)) {
    return doubled->get_name() + " is given twice: give it once";
  }
  // These words came before any command.
  const std::vector<std::string> before = app.remaining();
  if (!before.empty() && before.front().starts_with('-')) {
    return "name a command before '" + before.front() +
           "': 'weft --help' lists all";
  }
  if (!before.empty()) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({}))
      names.push_back(command->get_name());
    return no_such("command", before.front(), names, "weft");
  }
  if (auto unknown = unknown_option(app)) return *unknown;
  return explained(given_command(app), error);
}

}  // namespace weft
