#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/device.hpp"
#include "actors/llm/seeds.hpp"
#include "actors/plan_receiver.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/python/inductor.hpp"
#include "compiler/targets.hpp"
#include "messages/protection.hpp"
#include "messages/shown_text.hpp"
#include "runtime/export/checkout.hpp"
#include "runtime/llm/utf8.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/machine/stopwatch.hpp"
#include "runtime/sandbox/sandbox_mode.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/describe.hpp"
#include "tools/weft/finished_run.hpp"
#include "tools/weft/interrupt.hpp"
#include "tools/weft/open_bus.hpp"
#include "tools/weft/own_runs.hpp"
#include "tools/weft/run_class.hpp"
#include "tools/weft/run_in_process.hpp"
#include "tools/weft/run_machine.hpp"
#include "tools/weft/run_settings.hpp"

namespace weft {
namespace {

void say_protections(Display& display, const Machine& machine) {
  if (machine.unprotected.empty()) return;
  std::string text = "this machine's sandbox lacks:";
  for (const std::string& layer : machine.unprotected)
    text += " " + layer + ",";
  text.back() = ' ';
  display.say(text + "('weft doctor' says why)");
}

void say_untimed(Display& display, const RunStart& start) {
  if (can_time(start.options, start.machine)) return;
  display.say("no GPU here: kernels for " + start.options.target +
              " are checked in an interpreter and not timed ('weft doctor' "
              "says why)");
}

/// Whether a language model is asked for kernels, or for how to cut.
bool asks_models(const RunOptions& options) {
  return std::ranges::find(options.seeds, kLlmSource) != options.seeds.end() ||
         options.llm.group || options.llm.fuse;
}

void say_unasked(Display& display, const RunFlags& flags) {
  const LlmOptions& llm = flags.options.llm;
  if (llm.name.empty() || asks_models(flags.options) ||
      !flags.describe.empty()) {
    return;
  }
  display.say(llm.name + " is named, and nothing asks it: add llm to --seeds");
}

/// Without a library nobody asks it.
Result<void> settle_library(RunOptions& options) {
  if (options.known_kernels.empty()) {
    std::erase(options.seeds, "library");
  } else {
    options.known_kernels =
        std::filesystem::absolute(options.known_kernels).string();
  }
  if (!options.seeds.empty()) return {};
  return fail(ErrorCode::wrong_input,
              "without a kernel library no source of seeds is left: name "
              "one with --library, or add another with --seeds");
}

/// On a GPU, Inductor is among the seed generators unless others are named: the
/// best known module may be its code.
void settle_seeds(RunFlags& flags, const Machine& machine) {
  RunOptions& options = flags.options;
  const Target* target = find_target(options.target);
  const bool is_named =
      std::ranges::find(flags.words, "--seeds") != flags.words.end();
  if (is_named || !target || !target->on_gpu || !can_time(options, machine) ||
      options.no_extern || options.dynamic_batch) {
    return;
  }
  options.seeds.emplace_back(kInductorTarget);
}

/// No limit on money holds where nobody says what a call costs.
Result<void> check_prices(const LlmOptions& llm,
                          const std::vector<LlmEndpoint>& endpoints) {
  if (llm.budget_micro_usd < 0 && llm.subgraph_micro_usd < 0) return {};
  for (const LlmProvider& provider : llm.providers) {
    if (find_endpoint(endpoints, provider.name)->has_prices) continue;
    return fail(ErrorCode::wrong_input,
                "a budget in USD, and [llm." + provider.name +
                    "] has no prices: set prices.input and prices.output "
                    "there (zero where it is free), or limit the run with "
                    "--budget-tokens");
  }
  return {};
}

/// Batches are answered within a day, which no budget of seconds allows.
Result<void> check_batch(const RunOptions& options,
                         const std::vector<LlmEndpoint>& endpoints,
                         const RunFlags& flags) {
  const bool is_described = !flags.describe.empty();
  const bool is_partition = flags.only_partition && options.llm.group;
  if (options.budget_ms == 0 && !is_described && !is_partition) return {};
  for (const LlmProvider& provider : options.llm.providers) {
    if (!find_endpoint(endpoints, provider.name)->batch) continue;
    return fail(ErrorCode::wrong_input,
                std::string(is_described   ? "--describe"
                            : is_partition ? "weft explain"
                                           : "--budget-s") +
                    " does not go with [llm." + provider.name +
                    "], whose answers come within a day (batch = true): "
                    "leave one of them out");
  }
  return {};
}

/// The providers that the run may ask, as its roles must know them.
Result<void> settle_llm(RunFlags& flags,
                        const std::vector<LlmEndpoint>& endpoints) {
  RunOptions& options = flags.options;
  const bool is_described = !flags.describe.empty();
  const bool is_asked = asks_models(options) || is_described;
  if (is_asked && options.llm.name.empty()) {
    return fail(
        ErrorCode::wrong_input,
        "--seeds llm, --llm-groups, --llm-fuses and --describe need a "
        "provider: name it with --llm NAME ('weft llm list' says which there "
        "are)");
  }
  if (options.llm.name.empty()) return {};
  auto providers = providers_of(endpoints, options.llm.name);
  if (!providers) return std::unexpected(providers.error());
  options.llm.providers = std::move(*providers);
  options.llm.edition = kPatternsEdition;
  if (!is_asked) return {};
  const auto key = check_llm_key(endpoints, options.llm.name);
  if (!key) return key;
  const auto batch = check_batch(options, endpoints, flags);
  if (!batch) return batch;
  return check_prices(options.llm, endpoints);
}

/// Code that is not trusted runs in the sandbox or not at all.
Result<void> check_box(const RunFlags& flags) {
  if (flags.untrusted_problem) {
    return check_has_sandbox("--untrusted-problem");
  }
  return flags.describe.empty() ? Result<void>()
                                : check_has_sandbox("--describe");
}

/// The text of the file that --graph names; empty: none is named.
Result<std::string> read_graph(const RunFlags& flags) {
  if (flags.graph.empty()) return "";
  auto text = read_file(flags.graph);
  if (!text) return text;
  const auto graph = parse_graph(*text);
  if (graph) return text;
  return fail(ErrorCode::wrong_input,
              "--graph " + flags.graph.string() + ": " + graph.error().message);
}

/// What a run needs of the machine, the user's files and settings, settled.
struct Ready {
  LlmAccess llm;
  std::vector<PromptFile> prompts;
  std::string graph;  ///< the text of --graph's file
  Installation installation;
  RunClass run_class;
};

/// Nothing is written yet, and little time spent.
Result<Ready> make_ready(const CommonFlags& common, RunFlags& flags,
                         const std::stop_token& stop) {
  Ready ready;
  if (const auto closed = check_listening(flags.listen); !closed) {
    return std::unexpected(closed.error());
  }
  if (const auto boxed = check_box(flags); !boxed) {
    return std::unexpected(boxed.error());
  }
  if (const auto settled = settle_library(flags.options); !settled) {
    return std::unexpected(settled.error());
  }
  auto loaded = load_settings(common.config);
  if (!loaded) return std::unexpected(loaded.error());
  const auto models = settle_llm(flags, loaded->endpoints);
  if (!models) return std::unexpected(models.error());
  ready.llm = llm_access(*loaded, flags.llm_cache);
  auto prompts = read_prompt_files(flags.options.llm);
  if (!prompts) return std::unexpected(prompts.error());
  ready.prompts = std::move(*prompts);
  auto graph = read_graph(flags);
  if (!graph) return std::unexpected(graph.error());
  ready.graph = std::move(*graph);
  if (flags.describe.empty()) {
    std::error_code unknown;
    if (std::filesystem::is_directory(flags.problem, unknown)) {
      return fail(ErrorCode::wrong_input,
                  flags.problem.string() +
                      " is a folder, not a file: 'weft bench' runs a folder");
    }
    const auto problem = read_file(flags.problem);
    if (!problem) return std::unexpected(problem.error());
    const std::string name = flags.problem.filename();
    const std::string shown = repaired_utf8(name);
    if (shown != name) {
      return fail(ErrorCode::wrong_input,
                  "the name of " + shown + " is not UTF-8: rename it");
    }
  }
  // A described problem is tried on this machine.
  const bool may_lack_torch =
      !flags.listen.endpoint.empty() && flags.describe.empty();
  auto installation = ready_installation(common, !may_lack_torch);
  if (!installation) return std::unexpected(installation.error());
  ready.installation = std::move(*installation);
  auto settled = settle_class(common, ready.installation, flags.listen,
                              flags.options, stop);
  if (!settled) return std::unexpected(settled.error());
  ready.run_class = std::move(*settled);
  settle_seeds(flags, ready.run_class.machine);
  return ready;
}

/// A run goes on without what the probe would have said.
void probe(const CommonFlags& common, const RunFlags& flags, Ready& ready) {
  if (!ready.run_class.head_judges()) return;
  if (asks_models(flags.options)) {
    const auto answer = add_model_facts(ready.run_class.machine, flags.options,
                                        ready.installation);
    if (!answer && !common.quiet) {
      std::fprintf(stderr,
                   "weft: the processor could not be measured: %s; the "
                   "language model is not told its rates\n",
                   answer.error().message.c_str());
    }
  }
  const auto probed =
      add_gpu_numbers(ready.run_class.machine, ready.installation);
  if (probed || common.quiet) return;
  std::fprintf(stderr,
               "weft: the GPU could not be measured: %s; kernels are chosen "
               "by what others reach\n",
               terminal_paragraph(probed.error().message).c_str());
}

/// Says why a model was not partitioned.
int partition_code(const CommonFlags& common, const RunFinished& finished) {
  if (finished.exit_code == 0) return 0;
  const auto code = finished.exit_code == 2   ? ErrorCode::wrong_input
                    : finished.exit_code == 3 ? ErrorCode::missing
                                              : ErrorCode::failed;
  return report_error(common, {code, finished.summary});
}

int begin(const CommonFlags& common, const RunFlags& flags, const Ready& ready,
          const Interrupt& interrupt, const Stopwatch& watch) {
  const auto problem = read_file(flags.problem);
  if (!problem) return report_error(common, problem.error());
  const auto folder = flags.out.value_or(default_run_folder(flags.problem));
  if (const auto freed = make_free(folder); !freed) {
    return report_error(common, freed.error());
  }
  const auto run =
      create_run(folder, flags.fast_sync ? Sync::normal : Sync::full);
  if (!run) return report_error(common, run.error());
  OpenRun& open = **run;
  const auto stored = open.journal.set_meta(
      kCheckoutMeta,
      checkout_of(flags.problem)
          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (!stored) return report_error(common, stored.error());
  remember_settings(open.journal, common.config);
  RunOptions options = flags.options;
  limit_timing(options);
  if (options.budget_ms > 0) {  // the roles' time begins now
    options.budget_ms =
        std::max<std::int64_t>(1, options.budget_ms - watch.elapsed_ms());
  }
  RunStart start =
      make_start(options, ready.run_class.machine, ready.prompts, open.blobs);
  add_class(start, ready.run_class, flags.listen);
  start.problem_name = flags.problem.filename().string();
  start.problem = open.blobs.put(*problem);
  if (!ready.graph.empty()) start.graph = open.blobs.put(ready.graph);
  if (!flags.describe.empty()) {
    start.description = open.blobs.put(flags.describe);
  }
  start.untrusted_problem = flags.untrusted_problem;
  CommonFlags shown = common;
  if (flags.only_partition) {  // only the explanation is for the user
    shown.quiet = true;
    shown.json = false;
  }
  Display display(shown);
  display.say("run directory: " + open.directory.folder().string());
  say_protections(display, start.machine);
  say_untimed(display, start);
  say_unasked(display, flags);
  mark_own(open.journal, start);
  Hosting hosting{common,    flags.listen, ready.installation,
                  ready.llm, display,      interrupt.token()};
  if (flags.only_partition) hosting.make_role = &make_role_to_partition;
  const auto end = host_start(hosting, open, start, address::extractor);
  if (!end) return report_error(common, end.error());
  if (flags.only_partition && end->kind == HostEnd::Kind::finished) {
    return partition_code(common, end->finished);
  }
  // Its folder is temporary: there is nothing to go on with.
  if (flags.only_partition && end->kind == HostEnd::Kind::interrupted) {
    return 130;
  }
  return conclude(common, display, open.directory, *end);
}

}  // namespace

int run_command(const CommonFlags& common, const RunFlags& given) {
  const Stopwatch watch;
  const Interrupt interrupt;
  RunFlags flags = given;
  auto ready = make_ready(common, flags, interrupt.token());
  if (!ready && interrupt.token().stop_requested()) return 130;
  if (!ready) return report_error(common, ready.error());
  probe(common, flags, *ready);
  if (!flags.describe.empty()) {
    const auto file =
        write_problem({common, ready->installation, ready->run_class.machine,
                       ready->llm, ready->prompts},
                      flags);
    if (!file) return file.error();
    flags.problem = *file;
  }
  return begin(common, flags, *ready, interrupt, watch);
}

}  // namespace weft
