#include <cstdio>
#include <string>

#include "tools/weft/choices_command.hpp"
#include "tools/weft/command_registration.hpp"
#include "tools/weft/manual.hpp"
#include "tools/weft/shared_options.hpp"
#include "tools/weft/tune_command.hpp"

namespace weft {

void add_choices(CLI::App& app, CommonFlags& common, int& code) {
  static std::string part;
  auto* choices = app.add_subcommand(
      "choices", "List the choices that affect speed only, to override them");
  add_common(*choices, common);
  choices->add_option("part", part, "Only names with this in them");
  choices->callback([&] { code = choices_command(common, part); });
}

void add_tune(CLI::App& app, CommonFlags& common, int& code) {
  static TuneFlags flags;
  auto* tune =
      app.add_subcommand("tune", "Try values of one choice on one problem");
  add_common(*tune, common);
  tune->add_option("problem", flags.run.problem,
                   "Python file with Model, get_inputs, get_init_inputs")
      ->required();
  tune->add_option("--try", flags.sweep,
                   "NAME=VALUE,VALUE,… ('weft choices' lists names)")
      ->required();
  tune->add_option("--out", flags.run.out,
                   "Folder of the runs (default: weft-runs/tune-…)");
  add_settable(*tune, flags.run);
  tune->callback([&, tune] {
    // A measurement must not depend on earlier runs.
    if (tune->count("--library") == 0) flags.run.options.known_kernels.clear();
    code = tune_command(common, flags);
  });
}

void add_simulate(CLI::App& app, CommonFlags& common, int& code) {
  static SimulateFlags flags;
  auto* simulate = app.add_subcommand(
      "simulate", "Simulate whole runs with injected faults");
  add_common(*simulate, common);
  simulate
      ->add_option("--random-seeds", flags.random_seeds, "From..to, inclusive")
      ->capture_default_str();
  simulate->add_option("--out", flags.out,
                       "Run directory to keep the journal of one seed in");
  simulate->callback([&] { code = simulate_command(common, flags); });
}

void add_manual(CLI::App& app, int& code) {
  static std::string shell, format;
  const auto print = [&app, &code](const std::string& text) {
    std::fputs(text.c_str(), stdout);
    code = 0;
  };
  auto* completion =
      app.add_subcommand("completion",
                         "Print a completion script for a shell. In bash: "
                         "source <(weft completion "
                         "bash)");
  completion->add_option("shell", shell, "For which shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([&app, print] { print(completion_script(app, shell)); });
  auto* manual = app.add_subcommand(
      "manual",
      "Print the manual page, or the reference as Markdown. To read it: weft "
      "manual man | man -l -");
  manual->add_option("format", format, "In which format")
      ->required()
      ->check(CLI::IsMember({"man", "markdown", "operators", "settings"}));
  manual->callback([&app, print] { print(manual_text(app, format)); });
}

}  // namespace weft
