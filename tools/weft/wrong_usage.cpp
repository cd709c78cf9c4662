#include "tools/weft/wrong_usage.hpp"

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
  for (const CLI::App* verb : app.get_subcommands()) {
    if (const CLI::Option* option = doubled_option(*verb)) return option;
  }
  return nullptr;
}

}  // namespace

std::optional<std::string> wrong_usage(const CLI::App& app) {
  if (const CLI::Option* doubled = doubled_option(app)) {
    return doubled->get_name() + " is given twice: give it once";
  }
  if (!app.get_subcommands().empty()) return std::nullopt;
  for (const std::string& word : app.remaining()) {
    if (!word.starts_with('-')) {
      return "there is no verb '" + word +
             "': 'weft --help' lists those there are";
    }
  }
  return std::nullopt;
}

}  // namespace weft
