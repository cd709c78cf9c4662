#include <cstdint>
#include <string>
#include <vector>

#include "tools/weft/attached_command.hpp"
#include "tools/weft/bench_command.hpp"
#include "tools/weft/command_registration.hpp"
#include "tools/weft/config_command.hpp"
#include "tools/weft/doctor_command.hpp"
#include "tools/weft/eval_command.hpp"
#include "tools/weft/number_range.hpp"
#include "tools/weft/run_flags.hpp"
#include "tools/weft/run_python_driver.hpp"
#include "tools/weft/settings_flags.hpp"
#include "tools/weft/shared_options.hpp"

namespace weft {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

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
  const bool is_as_built = !flags.train && flags.options.mode == "as-is" &&
                           !flags.options.dynamic_batch;
  if (!flags.graph.empty() && !is_as_built) {
    return report_error(common,
                        {ErrorCode::wrong_input,
                         "--graph is of one size, and of a model as its "
                         "constructor leaves it: leave out --mode, --train and "
                         "flags of any size"});
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
  if (const auto one = check_one_mode(flags.options); !one) {
    return report_error(common, one.error());
  }
  return flags.train ? run_python_driver(common, flags, kTrainDriver)
                     : run_command(common, flags);
}

/// Settings of `run` and `config` in addition to those of add_settable().
/// Returns --train.
CLI::Option* add_run_alone(CLI::App& app, RunFlags& flags) {
  auto* train = app.add_flag("--train", flags.train,
                             "Kernels for the backward pass, too: a ModelNew "
                             "that can be trained");
  const auto listen_flags = add_listen(app, flags.listen);
  for (CLI::Option* flag : listen_flags) train->excludes(flag);
  add_classes(app, flags.listen);
  app.add_flag("--fleet", flags.listen.is_fleet)
      ->needs(listen_flags.front())
      ->group("");  // for the bench
  return train;
}

}  // namespace

void add_run(CLI::App& app, CommonFlags& common, int& code) {
  static RunFlags flags;
  auto* run = app.add_subcommand(
      "run",
      "Turn a problem file into a verified, faster module. The problem's code "
      "is trusted: it runs with your rights, unless --untrusted-problem is "
      "given");
  add_common(*run, common);
  auto* problem =
      run->add_option("problem", flags.problem,
                      "Python file with Model, get_inputs, get_init_inputs");
  auto* graph =
      run->add_option("--graph", flags.graph,
                      "The problem's graph, if it was captured before: nothing "
                      "is captured");
  auto* describe =
      run->add_option("--describe", flags.describe,
                      "The model in plain words, instead of a file; --llm "
                      "writes it")
          ->excludes(problem)
          ->excludes(graph);
  run->add_flag("--yes", flags.yes,
                "Do not ask whether its reference is what was meant")
      ->needs(describe);
  run->add_option("--out", flags.out, "Run directory (default: weft-runs/…)");
  auto passed = add_settable(*run, flags);
  // What the runs that a driver starts are not told: it is the whole's.
  std::erase_if(passed, [](const CLI::Option* flag) {
    return flag->get_name() == "--mode" || flag->get_name() == "--budget-s";
  });
  add_run_alone(*run, flags)->excludes(describe);
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
                   "Precision of products, in reference and candidate")
      ->check(CLI::IsMember({"framework", "strict", "tf32"}))
      ->capture_default_str();
  eval->add_option("--mode", flags.mode,
                   "Mode of reference and candidate (as-is: as constructed)")
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
      "Seed of all checked inputs (default: a random one, which is "
      "printed)");
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
                    "Another folder; its scores are printed next to these");
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
  static bool is_untrusted = false;  // Passed on to its runs.
  run_flags.push_back(add_untrusted(*bench, is_untrusted));
  const auto listen_flags = add_listen(*bench, flags.listen);
  bench->remove_option(listen_flags.back());  // its runs leave all to nodes
  add_classes(*bench, flags.listen);
  bench->callback([&, bench, run_flags] {
    flags.run_words = words_of(run_flags);
    // A measurement must not depend on earlier runs.
    if (bench->count("--library") == 0 && bench->count("--no-library") == 0) {
      flags.run_words.push_back("--no-library");
    }
    if (bench->count("--accept") == 0) {
      flags.run_words.insert(flags.run_words.end(), {"--accept", "both"});
    }
    code = bench_command(common, flags);
  });
}

void add_resume(CLI::App& app, CommonFlags& common, int& code) {
  static ResumeFlags flags;
  auto* resume = app.add_subcommand("resume", "Continue a run that stopped");
  add_common(*resume, common);
  resume->add_option("run", flags.run, "Run directory")->required();
  resume->add_flag("--recorded", flags.recorded,
                   "Continue from what is recorded, if another weft began it");
  add_trust(*resume, flags);
  resume->add_flag("!--no-llm-cache", flags.llm_cache,
                   "Pay language models again for what they answered before");
  add_listen(*resume, flags.listen);
  resume->callback([&] { code = resume_command(common, flags); });
}

void add_doctor(CLI::App& app, CommonFlags& common, int& code) {
  static DoctorFlags flags;
  auto* doctor = app.add_subcommand(
      "doctor", "Check what this machine has and what it lacks");
  add_common(*doctor, common);
  doctor->add_flag("--no-run", flags.is_brief,
                   "Do not run a tiny problem, which takes half a minute");
  doctor->callback([&] { code = doctor_command(common, flags); });
}

void add_config(CLI::App& app, CommonFlags& common, int& code) {
  static RunFlags flags;
  static std::vector<std::string> typed;
  auto* config = app.add_subcommand(
      "config", "Print the settings in force and where each was set");
  add_common(*config, common);
  add_settable(*config, flags);
  add_run_alone(*config, flags);
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

}  // namespace weft
