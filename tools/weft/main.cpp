#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "messages/shown_text.hpp"
#include "runtime/sandbox/sandbox_mode.hpp"
#include "tools/weft/attached_command.hpp"
#include "tools/weft/bench_command.hpp"
#include "tools/weft/choices_command.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/config_command.hpp"
#include "tools/weft/doctor_command.hpp"
#include "tools/weft/earlier_flags.hpp"
#include "tools/weft/eval_command.hpp"
#include "tools/weft/export_command.hpp"
#include "tools/weft/help.hpp"
#include "tools/weft/llm_command.hpp"
#include "tools/weft/manual.hpp"
#include "tools/weft/node_command.hpp"
#include "tools/weft/number_range.hpp"
#include "tools/weft/run_flags.hpp"
#include "tools/weft/run_python_driver.hpp"
#include "tools/weft/settings_flags.hpp"
#include "tools/weft/tune_command.hpp"
#include "tools/weft/version.hpp"
#include "tools/weft/wrong_usage.hpp"

namespace {

using namespace weft;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

void add_common(CLI::App& app, CommonFlags& common) {
  app.add_option("--python", common.python,
                 "Python with PyTorch (else WEFT_PYTHON, then weft's own)");
  app.add_option(
      "--config", common.config,
      "A file of settings, stronger than those that are read anyway");
  app.add_option_function<std::string>(
         "--sandbox",
         [](const std::string& mode) {
           // Child processes inherit it.
           setenv(kSandboxModeVariable, mode.c_str(), 1);
         },
         "none: kernels run with all rights of yours, for those who trust each "
         "of them (default: box)")
      ->check(CLI::IsMember({"box", "none"}));
  auto* verbose = app.add_flag("-v,--verbose", common.verbose, "Tell more");
  auto* quiet = app.add_flag("-q,--quiet", common.quiet, "Errors only");
  app.add_flag("--json", common.json, "One JSON object a line")
      ->excludes(verbose)
      ->excludes(quiet);
  quiet->excludes(verbose);
}

/// Whole numbers from 1: CLI11's PositiveNumber takes 1.5, and names the
/// largest double to who writes something else.
CLI::Range event_number() {
  return CLI::Range(std::int64_t{1}, std::int64_t{1} << 62);
}

CLI::Option* add_untrusted(CLI::App& verb, bool& flag) {
  return verb.add_flag("--untrusted-problem", flag,
                       "Run the problem's code in a sandbox only (kernels run "
                       "in one anyway); takes more memory");
}

/// The flags of a run that [run] can set, too.
std::vector<CLI::Option*> add_settable(CLI::App& verb, RunFlags& flags) {
  auto all = add_run_flags(verb, flags.options);
  flags.options.jobs =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  all.push_back(
      verb.add_option("--jobs", flags.options.jobs, "Subgraphs at a time")
          ->check(CLI::Range(1, 256))
          ->capture_default_str());
  all.push_back(add_untrusted(verb, flags.untrusted_problem));
  all.push_back(
      verb.add_flag("--fast-sync", flags.fast_sync,
                    "Journal survives weft's death, not a power cut"));
  all.push_back(
      verb.add_flag("!--no-llm-cache", flags.llm_cache,
                    "Pay language models again for what they answered before"));
  return all;
}

/// Nothing is begun for an address that is none.
std::string fault_of_address(const std::string& text) {
  const auto colon = text.rfind(':');
  const std::string begin = "tcp://";
  const bool is_in_form =
      text.starts_with(begin) && colon != std::string::npos &&
      colon > begin.size() && colon + 1 < text.size() &&
      text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  // ZeroMQ takes a larger number's lower 16 bits.
  constexpr int kPortMax = 65'535;
  const bool good = is_in_form && std::atoll(&text[colon + 1]) <= kPortMax;
  return good ? "" : "an address is tcp://HOST:PORT, not '" + text + "'";
}

std::vector<CLI::Option*> add_listen(CLI::App& app, ListenFlags& flags) {
  auto* listen = app.add_option("--listen", flags.endpoint,
                                "Let nodes join at tcp://HOST:PORT")
                     ->check(fault_of_address);
  auto* keys = app.add_option("--keys", flags.keys, "Folder of 'weft keygen'")
                   ->needs(listen);
  auto* silence = app.add_option("--node-seconds", flags.silence_s,
                                 "A node that is silent for longer is lost")
                      ->check(number_range(0.5, 86'400.0))
                      ->needs(listen)
                      ->capture_default_str();
  auto* no_local =
      app.add_flag("--no-local", flags.no_local,
                   "Nodes build, check and time; the head captures, and "
                   "checks the whole")
          ->needs(listen);
  return {listen, keys, silence, no_local};
}

/// One run, or the driver of several.
int run_as_asked(const CommonFlags& common, const RunFlags& flags) {
  const bool is_alone =
      !flags.train && flags.describe.empty() && flags.listen.endpoint.empty();
  if (flags.options.dynamic_batch &&
      (flags.train || flags.options.mode == kBothModes)) {
    return report_error(common,
                        {ErrorCode::wrong_input,
                         size_flags(flags.options) +
                             " is for a run of one mode: leave out --train "
                             "and --mode both"});
  }
  if (flags.train && flags.untrusted_problem) {
    return report_error(common,
                        {ErrorCode::wrong_input,
                         "--train loads the problem itself, with your rights: "
                         "leave out --train or --untrusted-problem"});
  }
  if (flags.options.mode == kBothModes && is_alone) {
    return run_python_driver(common, flags, kModesDriver);
  }
  if (const auto valid = check_one_mode(flags.options); !valid) {
    return report_error(common, valid.error());
  }
  return flags.train ? run_python_driver(common, flags, kTrainDriver)
                     : run_command(common, flags);
}

void add_run(CLI::App& app, CommonFlags& common, RunFlags& flags, int& code) {
  auto* run = app.add_subcommand(
      "run",
      "Turn a problem file into a verified, faster module. The problem's code "
      "is trusted: it runs with your rights, unless --untrusted-problem is "
      "given");
  add_common(*run, common);
  auto* problem =
      run->add_option("problem", flags.problem,
                      "Python file with Model, get_inputs, get_init_inputs");
  auto* describe =
      run->add_option("--describe", flags.describe,
                      "Instead of a file: what the model computes, in plain "
                      "words, for --llm to write it")
          ->excludes(problem);
  run->add_flag("--yes", flags.yes,
                "Do not ask whether its reference is what was meant")
      ->needs(describe);
  run->add_option("--out", flags.out, "Run directory (default: weft-runs/…)");
  auto passed = add_settable(*run, flags);
  // What the runs that a driver starts are not told: it is the whole's.
  std::erase_if(passed, [](const CLI::Option* flag) {
    return flag->get_name() == "--mode" || flag->get_name() == "--budget-s";
  });
  auto* train = run->add_flag("--train", flags.train,
                              "Kernels for the backward pass, too: a ModelNew "
                              "that can be trained")
                    ->excludes(describe);
  for (CLI::Option* flag : add_listen(*run, flags.listen)) {
    train->excludes(flag);
  }
  run->parse_complete_callback([run, problem, describe, &common] {
    if (problem->count() + describe->count() == 0) {
      throw CLI::RequiredError("problem");
    }
    apply_settings(*run, "run", common.config);
  });
  run->callback([&, passed] {
    flags.words = words_of(passed);
    code = run_as_asked(common, flags);
  });
}

void add_eval(CLI::App& app, CommonFlags& common, int& code) {
  static EvalFlags flags;
  auto* eval = app.add_subcommand(
      "eval", "Judge a kernel from anywhere against the model it replaces");
  add_common(*eval, common);
  eval->add_option("reference", flags.reference,
                   "Python file with Model, get_inputs, get_init_inputs")
      ->required();
  eval->add_option("candidates", flags.candidates,
                   "Python files with ModelNew or kernel_function")
      ->required();
  eval->add_option("--target", flags.target, "Where it runs")
      ->check(CLI::IsMember(target_names()))
      ->capture_default_str();
  eval->add_option("--device", flags.device, "Which GPU")
      ->check(CLI::Range(0, 63))
      ->capture_default_str();
  eval->add_option("--precision", flags.precision,
                   "Of products, for reference and candidate alike")
      ->check(CLI::IsMember({"framework", "strict", "tf32"}))
      ->capture_default_str();
  eval->add_option("--mode", flags.mode,
                   "Both are put in it (as-is: their constructors')")
      ->check(CLI::IsMember({"as-is", "eval", "train"}))
      ->capture_default_str();
  eval->add_flag("--no-timing", flags.no_timing, "Only check");
  eval->add_flag("--untrusted-problem", flags.untrusted_problem,
                 "Run the reference's code in a sandbox only (candidates run "
                 "in one anyway)");
  eval->add_flag("!--no-compile-baseline", flags.compile_baseline,
                 "Do not time torch.compile");
  eval->add_option(
      "--random-seed", flags.random_seed,
      "Of all checked inputs; default: one that is drawn, and told");
  eval->add_option("--timing-ms", flags.timing_ms, "Time spent on timing")
      ->check(CLI::Range(10, 3'600'000))
      ->capture_default_str();
  eval->add_option("--call-ms", flags.call_ms, "Time limit of one call")
      ->check(CLI::Range(10, 86'400'000))
      ->capture_default_str();
  eval->add_option_function<double>(
          "--memory-gib",
          [&](double size) {
            flags.memory_bytes = static_cast<std::int64_t>(size * kGib);
          },
          "Memory limit of one candidate (8)")
      ->check(number_range(0.25, 4096.0));
  eval->callback([&] { code = eval_command(common, flags); });
}

void add_bench(CLI::App& app, CommonFlags& common, int& code) {
  static BenchFlags flags;
  auto* bench = app.add_subcommand(
      "bench", "Run a folder of problems and report the scores");
  add_common(*bench, common);
  bench
      ->add_option("folder", flags.folder,
                   "KernelBench's checkout, or a folder of problem files")
      ->required();
  bench->add_option("--and", flags.beside,
                    "Another folder, whose scores are told beside these");
  bench->add_option("--level", flags.levels, "Which levels, with commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0, 99));
  bench->add_option("--only", flags.only, "Patterns of file names, with commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  bench->add_option("--out", flags.out,
                    "Where all is written (default: weft-bench/…)");
  bench
      ->add_option("--limit-minutes", flags.limit_minutes,
                   "Stop then; the same command goes on")
      ->check(number_range(0.01, 100'000.0));
  bench
      ->add_option("--problem-minutes", flags.problem_minutes,
                   "Time limit of one problem")
      ->check(number_range(0.01, 100'000.0))
      ->capture_default_str();
  bench
      ->add_option("--jobs", flags.jobs,
                   "Problems at a time (default: as the machine allows)")
      ->check(CLI::Range(1, 256));
  bench->add_flag("--no-autotune-baseline", flags.no_autotune,
                  "On a GPU: do not time torch.compile's max-autotune");
  auto* all = bench->add_flag("--rerun", flags.rerun,
                              "Begin all again, finished ones too");
  bench
      ->add_flag("--rerun-failed", flags.rerun_failed,
                 "Begin those again that are not verified")
      ->excludes(all);
  auto run_flags = add_run_flags(*bench, flags.options);
  static bool is_untrusted = false;  // its runs are told
  run_flags.push_back(add_untrusted(*bench, is_untrusted));
  const auto listen_flags = add_listen(*bench, flags.listen);
  run_flags.insert(run_flags.end(), listen_flags.begin(), listen_flags.end());
  bench->callback([&, bench, run_flags] {
    flags.run_words = words_of(run_flags);
    // What is measured must not depend on what ran here before.
    if (bench->count("--library") == 0 && bench->count("--no-library") == 0) {
      flags.run_words.push_back("--no-library");
    }
    if (bench->count("--accept") == 0) {
      flags.run_words.insert(flags.run_words.end(), {"--accept", "both"});
    }
    code = bench_command(common, flags);
  });
}

void add_attached(CLI::App& app, int& code) {
  static AttachedFlags flags;
  auto* attached = app.add_subcommand(
      "attached", "Run another command of weft until standard input is closed");
  attached->group("");  // for programs that start weft
  attached->add_option("--remove", flags.remove,
                       "Folder to remove once standard input was closed");
  attached
      ->add_option("--nice", flags.niceness, "Niceness added to the command's")
      ->check(CLI::Range(0, 19));
  attached->prefix_command();
  attached->callback([attached, &code] {
    flags.words = attached->remaining();
    if (flags.words.empty()) throw CLI::RequiredError("a command of weft");
    code = attached_command(flags);
  });
}

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
    // What is measured must not depend on what ran here before.
    if (tune->count("--library") == 0) flags.run.options.known_kernels.clear();
    code = tune_command(common, flags);
  });
}

void add_config(CLI::App& app, CommonFlags& common, int& code) {
  static RunFlags flags;
  static std::vector<std::string> typed;
  auto* config = app.add_subcommand(
      "config", "Print the settings in force and where each was set");
  add_common(*config, common);
  add_settable(*config, flags);
  config->parse_complete_callback([config, &common] {
    for (const CLI::Option* option : config->get_options()) {
      if (option->count() > 0) typed.push_back(option->get_name());
    }
    apply_settings(*config, "run", common.config);
  });
  config->callback([config, &common, &code] {
    code = config_command(common, *config, typed);
  });
}

void add_llm(CLI::App& app, CommonFlags& common, int& code) {
  static std::string name;
  auto* llm =
      app.add_subcommand("llm", "List, check and customise language models");
  llm->require_subcommand(1);
  auto* list = llm->add_subcommand("list", "All of them");
  add_common(*list, common);
  list->callback([&] { code = llm_list_command(common); });
  auto* models = llm->add_subcommand("models", "What a provider offers");
  add_common(*models, common);
  models->add_option("name", name, "NAME of [llm.NAME]")->required();
  models->callback([&] { code = llm_models_command(common, name); });
  auto* check =
      llm->add_subcommand("check", "Make one tiny call, and say what it told");
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

/// How far the journal of a run that somebody else began is believed.
void add_trust(CLI::App& app, ResumeFlags& flags) {
  auto* trusted = app.add_flag(
      "--trusted", flags.trusted,
      "Its journal says what holds: the problem runs with your rights, within "
      "its limits and budgets (runs that you began here need no such flag)");
  app.add_option("--library", flags.library,
                 "The kernel library of a run that was not begun here")
      ->excludes(trusted);
}

void add_others(CLI::App& app, CommonFlags& common, int& code) {
  static ResumeFlags resume_flags;
  auto* resume = app.add_subcommand("resume", "Continue a run that stopped");
  add_common(*resume, common);
  resume->add_option("run", resume_flags.run, "Run directory")->required();
  resume->add_flag("--recorded", resume_flags.recorded,
                   "Where another weft's compiler began it: go on from what "
                   "is recorded");
  add_trust(*resume, resume_flags);
  resume->add_flag("!--no-llm-cache", resume_flags.llm_cache,
                   "Pay language models again for what they answered before");
  add_listen(*resume, resume_flags.listen);
  resume->callback([&] { code = resume_command(common, resume_flags); });

  static ReplayFlags replay_flags;
  auto* replay = app.add_subcommand(
      "replay",
      "Repeat the decisions of a run from its journal, without effects");
  add_common(*replay, common);
  replay->add_option("run", replay_flags.run, "Run directory")->required();
  auto* check =
      replay->add_flag("--check", replay_flags.check,
                       "Only say whether every role decides as it did");
  auto* until = replay->add_option("--until", replay_flags.until,
                                   "Stop after this event");
  until->check(event_number());
  auto* step = replay->add_flag("--step", replay_flags.step,
                                "Go from event to event, by commands that are "
                                "read ('help' lists them)");
  auto* at = replay->add_option("--at", replay_flags.at,
                                "Say what stands once this event is delivered");
  replay
      ->add_option("--state", replay_flags.state,
                   "What this role knows there, or 'all' of them")
      ->needs(at);
  step->excludes(check)->excludes(until)->excludes(at);
  at->check(event_number())->excludes(check)->excludes(until);
  replay->callback([&] { code = replay_command(common, replay_flags); });

  static ShowFlags show_flags;
  auto* show = app.add_subcommand("show", "Print what a run did");
  add_common(*show, common);
  show->add_option("run", show_flags.run, "Run directory")->required();
  show->add_flag("--events", show_flags.events, "Every envelope");
  show->add_option("subgraph,--subgraph", show_flags.subgraph,
                   "Only this subgraph, or one candidate of it in full")
      ->type_name("SUBGRAPH[/CANDIDATE]");
  show->add_option("--html", show_flags.html,
                   "Write report.html: to FILE, or into the run directory")
      ->expected(0, 1)
      ->type_name("[FILE]");
  show->callback([&] { code = show_command(common, show_flags); });

  auto* doctor = app.add_subcommand(
      "doctor", "Check what this machine has and what it lacks");
  add_common(*doctor, common);
  static DoctorFlags doctor_flags;
  doctor->add_flag("--no-run", doctor_flags.is_brief,
                   "Do not run a tiny problem, which takes half a minute");
  doctor->callback([&] { code = doctor_command(common, doctor_flags); });

  static SimulateFlags simulate_flags;
  auto* simulate = app.add_subcommand(
      "simulate", "Simulate whole runs with injected faults");
  add_common(*simulate, common);
  simulate
      ->add_option("--random-seeds", simulate_flags.random_seeds,
                   "From..to, inclusive")
      ->capture_default_str();
  simulate->add_option("--out", simulate_flags.out,
                       "Run directory to keep the journal of one seed in");
  simulate->callback([&] { code = simulate_command(common, simulate_flags); });
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
  fork->add_option("--out", flags.out, "Run directory (default: beside RUN)");
  fork->add_flag("--only-make", flags.only_make,
                 "Make the new run, and do not go on with it");
  fork->add_flag("!--no-llm-cache", flags.resume.llm_cache,
                 "Pay language models again for what they answered before");
  add_trust(*fork, flags.resume);
  add_listen(*fork, flags.resume.listen);
  fork->callback([&] { code = fork_command(common, flags); });
}

void add_diff(CLI::App& app, CommonFlags& common, int& code) {
  static DiffFlags flags;
  auto* diff = app.add_subcommand("diff",
                                  "Compare two runs and explain their first "
                                  "difference. Exit code 1: they differ");
  add_common(*diff, common);
  diff->add_option("left", flags.left, "Run directory")->required();
  diff->add_option("right", flags.right, "Another one")->required();
  diff->callback([&] { code = diff_command(common, flags); });
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
    auto* current = exports->add_subcommand(form, words);
    add_common(*current, common);
    current->add_option("run", flags.run, what)->required();
    current->add_option("-o,--out", flags.out, where);
    current->callback([&common, &code, form] {
      flags.form = form;
      code = export_command(common, flags);
    });
    return current;
  };
  add("trace", "Timeline for Perfetto (ui.perfetto.dev)");
  add("csv", "A row a candidate");
  add("otlp", "Spans for OpenTelemetry, calls by the GenAI conventions");
  add("pairs", "Verified kernels beside what they compute, as a data set",
      "Run directory, or the file of a kernel library",
      "File; one that ends in .parquet is that (default: JSON lines to the "
      "standard output)")
      ->add_option("--license", flags.licence,
                   "Of all of them, such as MIT (default: what the problem's "
                   "file says, or else its checkout)");
}

void add_nodes(CLI::App& app, CommonFlags& common, int& code) {
  static NodeFlags flags;
  auto* node = app.add_subcommand(
      "node", "Join a run that listens, and do part of its work");
  add_common(*node, common);
  node->add_option("--join", flags.join,
                   "The head: tcp://HOST:PORT (default: this machine's)")
      ->check(fault_of_address)
      ->capture_default_str();
  node->add_option("--name", flags.name,
                   "One of its own in the run (default: the host's)");
  node->add_option("--slots", flags.slots, "cpu=N: cores that the run may have")
      ->delimiter(',')
      ->allow_extra_args(false);
  node->add_option("--devices", flags.devices, "GPUs that the run may have")
      ->check(CLI::IsMember({"all", "none"}))
      ->capture_default_str();
  node->add_option("--keys", flags.keys, "Folder of 'weft keygen'");
  node->add_option("--folder", flags.folder,
                   "Its own (default: below ~/.cache/weft/nodes)");
  node->add_flag("--once", flags.once, "Go when the run has ended");
  node->add_option("--patience-seconds", flags.patience_s,
                   "The work of a head that is away for longer is dropped")
      ->check(number_range(1.0, 864'000.0))
      ->capture_default_str();
  node->add_option("--lose-blobs", flags.lose_every)
      ->check(CLI::Range(0, 1'000'000))
      ->group("");  // for tests
  node->callback([&] { code = node_command(common, flags); });

  static std::filesystem::path keys;
  auto* keygen =
      app.add_subcommand("keygen", "Make the keys of a head and its nodes");
  add_common(*keygen, common);
  keygen->add_option("folder", keys, "Where")->required();
  keygen->callback([&] { code = keygen_command(common, keys); });

  static std::filesystem::path run;
  auto* cluster =
      app.add_subcommand("cluster", "List the nodes of a run and what they do");
  add_common(*cluster, common);
  cluster->add_option("run", run, "Run directory")->required();
  cluster->callback([&] { code = cluster_command(common, run); });
}

/// The command line as CLI11 knows it, for shells and readers.
void add_manual(CLI::App& app, int& code) {
  static std::string shell, format;
  const auto print = [&app, &code](const std::string& text) {
    std::fputs(text.c_str(), stdout);
    code = 0;
  };
  auto* completion =
      app.add_subcommand("completion", "Print a completion script for a shell");
  completion->add_option("shell", shell, "For which shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([&app, print] { print(completion_script(app, shell)); });
  auto* manual = app.add_subcommand(
      "manual", "Print the manual page, or the reference as Markdown");
  manual->add_option("format", format, "In which format")
      ->required()
      ->check(CLI::IsMember({"man", "markdown", "operators"}));
  manual->callback([&app, print] { print(manual_text(app, format)); });
}

/// The exit code, 3 where what was printed did not get to where it should: a
/// table that is cut off looks like a whole one.
int end(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr,
               "weft: what it had to say could not be written: see that where "
               "it goes is there and has room\n");
  return code == 0 ? 3 : code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"weft turns a PyTorch model into verified, fast kernels"};
  set_grouped_help(app);
  app.set_version_flag("--version", std::string("weft ") + weft_version());
  app.require_subcommand(1);
  CommonFlags common;
  RunFlags run_flags;
  int code = 2;
  add_run(app, common, run_flags, code);
  add_eval(app, common, code);
  add_attached(app, code);
  add_bench(app, common, code);
  add_choices(app, common, code);
  add_tune(app, common, code);
  add_config(app, common, code);
  add_llm(app, common, code);
  add_others(app, common, code);
  add_fork(app, common, code);
  add_diff(app, common, code);
  add_ui(app, common, code);
  add_export(app, common, code);
  add_nodes(app, common, code);
  add_manual(app, code);
  try {
    auto words =
        with_current_flags({argv + 1, argv + argc}, [](const auto& line) {
          std::fprintf(stderr, "weft: %s\n", line.c_str());
        });
    std::ranges::reverse(words);  // CLI11 takes the last first
    app.name(argv[0]);
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    // CLI11 has exit codes of its own; wrong usage is 2 here.
    if (error.get_exit_code() == 0) return end(app.exit(error));  // --help
    if (app.get_subcommands().empty() && app.remaining().empty() &&
        error.get_exit_code() ==
            static_cast<int>(CLI::ExitCodes::RequiredError)) {
      std::fputs(first_steps(), stderr);
      return 2;
    }
    const auto wrong = wrong_usage(app);
    if (!wrong) return end(app.exit(error) == 0 ? 0 : 2);
    std::fprintf(stderr, "weft: %s\n", wrong->c_str());
    return 2;
  } catch (const std::filesystem::filesystem_error& error) {
    std::error_code ignored;
    const bool is_gone = std::filesystem::current_path(ignored).empty();
    std::fprintf(stderr, "weft: %s: %s%s\n", error.path1().c_str(),
                 error.code().message().c_str(),
                 is_gone ? ": the folder that weft was started in is gone: "
                           "change to another"
                         : "");
    return is_gone ? 2 : 3;
  } catch (const nlohmann::json::exception& error) {
    // A file or journal that somebody else wrote: what weft writes has no such
    // value.
    std::fprintf(stderr, "weft: a value is not what weft writes: %s\n",
                 terminal_paragraph(error.what()).c_str());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr,
                 "weft: memory ran out: raise 'ulimit -v' or the memory of the "
                 "container\n");
    return 3;
  }
  return end(code);
}
