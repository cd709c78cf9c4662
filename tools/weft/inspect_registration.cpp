#include <filesystem>

#include "tools/weft/command_registration.hpp"
#include "tools/weft/export_command.hpp"
#include "tools/weft/run_flags.hpp"
#include "tools/weft/settings_flags.hpp"
#include "tools/weft/shared_options.hpp"

namespace weft {

void add_show(CLI::App& app, CommonFlags& common, int& code) {
  static ShowFlags flags;
  auto* show = app.add_subcommand("show", "Print what a run did");
  add_common(*show, common);
  show->add_option("run", flags.run, "Run directory")->required();
  show->add_flag("--events", flags.events, "Every envelope");
  show->add_option("subgraph,--subgraph", flags.subgraph,
                   "Only this subgraph, or one candidate of it in full")
      ->type_name("SUBGRAPH[/CANDIDATE]");
  show->add_option("--html", flags.html,
                   "Write report.html: to FILE, or into the run directory")
      ->expected(0, 1)
      ->type_name("[FILE]");
  show->callback([&] { code = show_command(common, flags); });
}

void add_explain(CLI::App& app, CommonFlags& common, int& code) {
  static RunFlags flags;
  auto* explain = app.add_subcommand(
      "explain", "Print why calls were fused, tiles chosen and kernels used");
  add_common(*explain, common);
  explain
      ->add_option("problem", flags.problem,
                   "Problem file, which is captured and partitioned, or run "
                   "directory")
      ->required();
  const auto passed = add_settable(*explain, flags);
  explain->parse_complete_callback(
      [explain, &common] { apply_settings(*explain, "run", common.config); });
  explain->callback([&, passed] {
    flags.words = words_of(passed);
    code = explain_command(common, flags);
  });
}

void add_ui(CLI::App& app, CommonFlags& common, int& code) {
  static UiFlags flags;
  auto* ui = app.add_subcommand(
      "ui", "Show runs in a browser, finished or in progress");
  add_common(*ui, common);
  ui->add_option("folder", flags.root, "A run directory, or a folder of them")
      ->required();
  ui->add_option("--listen", flags.listen,
                 "HOST:PORT; beyond this machine a token is asked for")
      ->capture_default_str();
  ui->add_flag("--token", flags.token,
               "Ask for a token on this machine, too: others use it");
  ui->callback([&] { code = ui_command(common, flags); });
}

void add_export(CLI::App& app, CommonFlags& common, int& code) {
  static ExportFlags flags;
  auto* exports =
      app.add_subcommand("export", "Write a run in the format of another tool");
  exports->require_subcommand(1);
  const auto add = [&](const char* form, const char* words,
                       const char* what = "Run directory",
                       const char* where = "File (default: standard output)") {
    auto* one = exports->add_subcommand(form, words);
    add_common(*one, common);
    one->add_option("run", flags.run, what)->required();
    one->add_option("-o,--out", flags.out, where);
    one->callback([&common, &code, form] {
      flags.form = form;
      code = export_command(common, flags);
    });
    return one;
  };
  add("trace", "Timeline for Perfetto (ui.perfetto.dev)");
  add("csv", "A row a candidate");
  add("otlp", "Spans for OpenTelemetry, calls by the GenAI conventions");
  add("pairs", "Verified kernels and what they compute, as a data set",
      "Run directory, or the file of a kernel library",
      "File; one that ends in .parquet is that (default: JSON lines to the "
      "standard output)")
      ->add_option("--license", flags.licence,
                   "License of all kernels, such as MIT (default: the "
                   "problem file's, else its checkout's)");
}

void add_replay(CLI::App& app, CommonFlags& common, int& code) {
  static ReplayFlags flags;
  auto* replay = app.add_subcommand(
      "replay",
      "Repeat the decisions of a run from its journal, without effects");
  add_common(*replay, common);
  replay->add_option("run", flags.run, "Run directory")->required();
  auto* check = replay->add_flag(
      "--check", flags.check, "Only check that every role decides as before");
  auto* until =
      replay->add_option("--until", flags.until, "Stop after this event");
  until->check(event_number());
  auto* step = replay->add_flag("--step", flags.step,
                                "Go from event to event, by commands that are "
                                "read ('help' lists them)");
  auto* at = replay->add_option("--at", flags.at,
                                "Print what the run knows after this event");
  replay
      ->add_option("--state", flags.state,
                   "Print the state of this role there, or of 'all'")
      ->needs(at);
  step->excludes(check)->excludes(until)->excludes(at);
  at->check(event_number())->excludes(check)->excludes(until);
  replay->callback([&] { code = replay_command(common, flags); });
}

void add_diff(CLI::App& app, CommonFlags& common, int& code) {
  static DiffFlags flags;
  auto* diff = app.add_subcommand("diff",
                                  "Compare two runs and explain their first "
                                  "difference. Exit code 1: they differ");
  add_common(*diff, common);
  diff->add_option("left", flags.left, "Run directory")->required();
  diff->add_option("right", flags.right, "Another run directory")->required();
  diff->callback([&] { code = diff_command(common, flags); });
}

void add_fork(CLI::App& app, CommonFlags& common, int& code) {
  static ForkFlags flags;
  auto* fork = app.add_subcommand(
      "fork", "Continue a run from one of its events, with a change");
  add_common(*fork, common);
  fork->add_option("run", flags.run, "Run directory")->required();
  fork->add_option("--at", flags.at, "The last event that is kept")
      ->required()
      ->check(event_number());
  fork->add_option("--set", flags.settings,
                   "NAME=VALUE, a flag of 'weft run' (again for more)")
      ->allow_extra_args(false);
  fork->add_option("--reply", flags.reply,
                   "JSON file: fields of the answer that is this event");
  fork->add_option("--out", flags.out, "Run directory (default: next to RUN)");
  fork->add_flag("--only-make", flags.only_make,
                 "Make the new run, and do not go on with it");
  fork->add_flag("!--no-llm-cache", flags.resume.llm_cache,
                 "Pay language models again for what they answered before");
  add_trust(*fork, flags.resume);
  add_listen(*fork, flags.resume.listen);
  fork->callback([&] { code = fork_command(common, flags); });
}

}  // namespace weft
