#include <filesystem>
#include <string>

#include "tools/weft/command_registration.hpp"
#include "tools/weft/llm_command.hpp"
#include "tools/weft/shared_options.hpp"

namespace weft {

void add_llm(CLI::App& app, CommonFlags& common, int& code) {
  static std::string name;
  auto* llm =
      app.add_subcommand("llm", "List, check and customise language models");
  llm->require_subcommand(1);
  auto* list = llm->add_subcommand("list", "List the declared language models");
  add_common(*list, common);
  list->callback([&] { code = llm_list_command(common); });
  auto* models = llm->add_subcommand("models", "List the models of a provider");
  add_common(*models, common);
  models->add_option("name", name, "NAME of [llm.NAME]")->required();
  models->callback([&] { code = llm_models_command(common, name); });
  auto* check = llm->add_subcommand(
      "check", "Make one tiny call and print what it reports");
  add_common(*check, common);
  check->add_option("name", name, "NAME of [llm.NAME]")->required();
  check->callback([&] { code = llm_check_command(common, name); });
  static std::filesystem::path folder;
  auto* prompts = llm->add_subcommand(
      "prompts", "Write the prompt templates to a folder, to change them");
  add_common(*prompts, common);
  prompts->add_option("folder", folder, "See --prompts of 'weft run'")
      ->required();
  prompts->callback([&] { code = llm_prompts_command(common, folder); });
}

}  // namespace weft
