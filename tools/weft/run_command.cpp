#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "actors/device.hpp"
#include "actors/llm_seeds.hpp"
#include "actors/outcome.hpp"
#include "actors/roster.hpp"
#include "compiler/targets.hpp"
#include "runtime/bus/head_bus.hpp"
#include "runtime/bus/membership.hpp"
#include "runtime/host/caf_host.hpp"
#include "runtime/host/decisions_version.hpp"
#include "runtime/machine/device_choice.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/ports/production.hpp"
#include "runtime/store/llm_store.hpp"
#include "runtime/store/sha256.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/describe.hpp"
#include "tools/weft/display.hpp"
#include "tools/weft/finished_run.hpp"
#include "tools/weft/interrupt.hpp"
#include "tools/weft/prompt_files.hpp"
#include "tools/weft/report_file.hpp"
#include "tools/weft/settings_flags.hpp"

namespace weft {
namespace {

int exit_code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::wrong_input:
    case ErrorCode::damaged:
      return 2;
    case ErrorCode::missing:
      return 3;
    case ErrorCode::failed:
      return 1;
  }
  return 1;
}

/// Kernels for a GPU are built by Python alone; those in CUDA with a library of
/// NVIDIA's besides.
Result<void> check_tools(const RunOptions& options,
                         const Installation& installation) {
  const Target* target = find_target(options.target);
  if (!target || !target->on_gpu) return check_compiler();
  return target->name == "triton" ? Result<void>() : check_nvrtc(installation);
}

HostOptions host_options(Display& display) {
  HostOptions options;
  options.make_role = &make_role;
  options.on_user = [&display](const Envelope& envelope,
                               const Message& message) {
    display.show(envelope, message);
  };
  if (display.is_live()) {
    options.on_event = [&display](const Envelope& envelope) {
      display.take(envelope);
    };
  }
  return options;
}

void begin_bars(Display& display, const RunStart& start,
                const RunDirectory& run, BlobStore& blobs) {
  display.begin_bars(start, run.folder(), [&blobs](std::string_view hash) {
    return blobs.get(hash);
  });
}

/// How far a run was that goes on now.
Result<void> show_past(Display& display, const Journal& journal) {
  if (!display.is_live()) return {};
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    display.take(envelope);
    return true;
  });
  display.go_on();
  return read;
}

/// The run stands without its page: one that cannot be made is said, and no
/// more.
void write_page(Display& display, const RunDirectory& run) {
  const auto file = report_path(run);
  if (const auto written = write_report(run, file); !written) {
    std::fprintf(stderr, "weft: no report.html: %s\n",
                 written.error().message.c_str());
    return;
  }
  display.say("to look at: " + file.string());
}

/// Says how it ended. Ctrl-C leaves at once: what runs in the ports dies with
/// this process, and the journal has all that was answered.
int conclude(const CommonFlags& common, Display& display,
             const RunDirectory& run, const HostEnd& end) {
  const std::string folder = run.folder().string();
  switch (end.kind) {
    case HostEnd::Kind::broken:
      return report_error(common, end.error);
    case HostEnd::Kind::interrupted:
      std::fprintf(stderr, "weft: interrupted; go on with: weft resume %s\n",
                   folder.c_str());
      return 130;
    case HostEnd::Kind::finished:
      break;
  }
  if (end.finished.exit_code >= 1 && !common.json) {
    std::fprintf(stderr, "weft: %s\n", end.finished.summary.c_str());
  } else {
    display.say(end.finished.summary);
  }
  std::error_code ignored;
  if (std::filesystem::exists(run.folder() / "report.md", ignored)) {
    display.say("report: " + folder + "/report.md");
  }
  write_page(display, run);
  return end.finished.exit_code;
}

void say_protections(Display& display, const Machine& machine) {
  if (machine.unprotected.empty()) return;
  std::string text = "this machine's sandbox lacks:";
  for (const std::string& layer : machine.unprotected)
    text += " " + layer + ",";
  text.back() = ' ';
  display.say(text + "('weft doctor' says why)");
}

/// A GPU's events tell in a fraction of the time what a processor's clock does.
/// What was asked for stays.
void shorten_timing(RunOptions& options) {
  constexpr std::int64_t gpu_timing_ms = 300;
  constexpr std::int64_t gpu_final_timing_ms = 1'500;
  const RunOptions usual;
  if (options.timing_ms == usual.timing_ms) options.timing_ms = gpu_timing_ms;
  if (options.final_timing_ms == usual.final_timing_ms) {
    options.final_timing_ms = gpu_final_timing_ms;
  }
}

/// Settles the target "auto", and which GPU the run has.
Result<Machine> place_run(RunOptions& options, bool has_nvrtc) {
  const bool decides = options.target == "auto";
  // Without NVIDIA's compiler there is Triton's own.
  if (decides) options.target = has_nvrtc ? "gpu" : "triton";
  const Target* target = find_target(options.target);
  if (!target || !target->on_gpu) return describe_machine(std::nullopt);
  Machine machine = describe_machine(std::nullopt);
  auto gpus = choose_gpus(options.devices, options.device, list_gpus());
  if (!gpus) return std::unexpected(gpus.error());
  machine.gpus = std::move(*gpus);
  if (!machine.gpus.empty()) {
    shorten_timing(options);
    return machine;
  }
  if (decides) {
    options.target = "cpu";
  } else if (target->needs_gpu) {
    return fail(ErrorCode::missing,
                "no CUDA device: kernels for " + options.target +
                    " cannot be proven here; --target triton proves kernels "
                    "in an interpreter, --target cpu runs them ('weft doctor' "
                    "says why)");
  } else if (options.device > 0) {
    return fail(ErrorCode::missing,
                "there is no GPU " + std::to_string(options.device) +
                    ": 'weft doctor' lists those that there are");
  }
  return machine;
}

void say_untimed(Display& display, const RunStart& start) {
  if (can_time(start.options, start.machine)) return;
  display.say("no GPU here: kernels for " + start.options.target +
              " are interpreted and proven, and nothing is timed ('weft "
              "doctor' says why)");
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

/// The providers that the run may ask, as its roles must know them.
Result<void> settle_llm(RunOptions& options,
                        const std::vector<LlmEndpoint>& endpoints,
                        bool is_described) {
  const bool is_wanted =
      std::ranges::find(options.seeds, llm_source) != options.seeds.end();
  const bool is_asked =
      is_wanted || options.llm.group || options.llm.fuse || is_described;
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
  return {};
}

LlmAccess llm_access(LoadedSettings& loaded, bool cache) {
  return {std::move(loaded.endpoints),
          cache ? default_llm_cache() : std::filesystem::path()};
}

RunStart make_start(const RunFlags& flags, const Machine& machine,
                    BlobStore& blobs, const std::string& problem,
                    const std::vector<PromptFile>& prompts) {
  RunStart start;
  start.problem_name = flags.problem.filename().string();
  start.problem = blobs.put(problem);
  start.options = flags.options;
  start.options.llm.prompts = keep_prompts(prompts, blobs);
  start.machine = machine;
  start.weft_version = WEFT_VERSION;
  start.vocabulary = vocabulary_version;
  start.decisions = decisions_version();
  return start;
}

/// Who began the run, and who goes on with it: for when they disagree.
std::string version_text(const RunStart& start) {
  const auto of = [](const std::string& version, std::string_view decisions) {
    if (decisions.empty()) return "weft " + version;
    return "weft " + version + ", decisions " + std::string(decisions);
  };
  return "begun by " + of(start.weft_version, start.decisions) + "; this is " +
         of(WEFT_VERSION, decisions_version());
}

/// The first event tells what the run was asked to do.
Result<RunStart> read_start(const Journal& journal) {
  Result<RunStart> start =
      fail(ErrorCode::wrong_input,
           "the journal is empty: the run died before its first event; "
           "begin again with another --out");
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    const auto message = decode(envelope.type, envelope.body);
    if (message && std::holds_alternative<RunStart>(*message)) {
      start = std::get<RunStart>(*message);
    }
    return false;
  });
  if (!read) return std::unexpected(read.error());
  return start;
}

/// The run's own name: what nodes know it by when its head is another process.
Result<std::string> name_of_run(Journal& journal) {
  constexpr const char* key = "run";
  if (auto name = journal.meta(key)) return *name;
  std::random_device chance;
  std::string seed;
  for (int i = 0; i < 8; ++i) seed += std::to_string(chance()) + " ";
  std::string name = content_hash(seed).substr(0, 32);
  const auto kept = journal.set_meta(key, name);
  if (!kept) return std::unexpected(kept.error());
  return name;
}

/// null: the run is this machine's alone.
Result<std::unique_ptr<HeadBus>> open_bus(const CommonFlags& common,
                                          const ListenFlags& flags,
                                          const RunDirectory& run,
                                          const Installation& installation,
                                          Journal& journal, BlobStore& blobs,
                                          const RunStart& start) {
  auto expected = nodes_in(journal);
  if (!expected) return std::unexpected(expected.error());
  if (flags.endpoint.empty()) {
    if (expected->empty()) return nullptr;
    return fail(ErrorCode::wrong_input,
                std::to_string(expected->size()) +
                    " nodes have a part of this run: resume it with --listen "
                    "tcp://HOST:PORT; what those do that do not come back "
                    "goes elsewhere");
  }
  HeadBus::Options options;
  options.endpoint = flags.endpoint;
  if (flags.keys) {
    auto keys = read_head_keys(*flags.keys);
    if (!keys) return std::unexpected(keys.error());
    options.keys = std::move(*keys);
  }
  auto name = name_of_run(journal);
  if (!name) return std::unexpected(name.error());
  options.run = std::move(*name);
  const auto spared = spared_head_in(journal);
  if (!spared) return std::unexpected(spared.error());
  options.spared_head = *spared;
  options.spares_head = flags.no_local;
  options.expected = std::move(*expected);
  options.start = start;
  options.own =
      make_hello(installation, WEFT_VERSION, !start.machine.gpus.empty());
  options.silence_ms = static_cast<std::int64_t>(flags.silence_s * 1000);
  options.heartbeat_ms =
      std::clamp<std::int64_t>(options.silence_ms / 5, 100, 1'000);
  options.state_file = run.folder() / "cluster.json";
  options.log = [quiet = common.quiet || common.json](const std::string& text) {
    if (!quiet) std::fprintf(stderr, "weft: %s\n", text.c_str());
  };
  auto bus = std::make_unique<HeadBus>(blobs, std::move(options));
  if (const auto listening = bus->listen(); !listening) {
    return std::unexpected(listening.error());
  }
  return bus;
}

void say_listening(Display& display, const HeadBus* bus) {
  if (bus) display.say("listening for nodes on " + bus->endpoint());
}

/// What nodes build is the head's, too, before the run hears of it.
void take_what_nodes_build(HeadBus* bus, BlobStore& blobs, KernelCache& cache) {
  if (!bus) return;
  bus->on_built([&](const BuildRequest& request,
                    const std::string& artefact) -> Result<void> {
    const auto source = blobs.get(request.source);
    if (!source) return std::unexpected(source.error());
    if (artefact.empty()) {  // too large to travel
      BuildTerms terms(request.wall_ms);
      terms.arch = request.arch;
      const auto built = cache.build(request.target, *source, terms);
      if (!built) return std::unexpected(built.error());
      if (!built->file.empty()) return {};
      return fail(ErrorCode::failed,
                  "what a node has built does not build at the head");
    }
    const auto bytes = blobs.get(artefact);
    if (!bytes) return std::unexpected(bytes.error());
    const auto taken =
        cache.take(request.target, *source, request.arch, *bytes);
    if (!taken) return std::unexpected(taken.error());
    return {};
  });
}

}  // namespace

int report_error(const CommonFlags& common, const Error& error) {
  if (common.json) {
    const nlohmann::json line = {{"error", error.message},
                                 {"exit_code", exit_code_of(error)}};
    std::printf("%s\n", line.dump().c_str());
  }
  std::fprintf(stderr, "weft: %s\n", error.message.c_str());
  return exit_code_of(error);
}

int run_command(const CommonFlags& common, const RunFlags& given) {
  const Interrupt interrupt;
  RunFlags flags = given;
  if (const auto settled = settle_library(flags.options); !settled) {
    return report_error(common, settled.error());
  }
  auto loaded = load_settings(common.config);
  if (!loaded) return report_error(common, loaded.error());
  const bool is_described = !flags.describe.empty();
  const auto models =
      settle_llm(flags.options, loaded->endpoints, is_described);
  if (!models) return report_error(common, models.error());
  const auto prompts = read_prompt_files(flags.options.llm);
  if (!prompts) return report_error(common, prompts.error());
  auto problem =
      is_described ? Result<std::string>("") : read_file(flags.problem);
  if (!problem) return report_error(common, problem.error());
  const auto installation = ready_installation(common);
  if (!installation) return report_error(common, installation.error());
  const auto machine = place_run(flags.options, !installation->nvrtc.empty());
  if (!machine) return report_error(common, machine.error());
  if (const auto tools = check_tools(flags.options, *installation); !tools) {
    return report_error(common, tools.error());
  }
  const LlmAccess access = llm_access(*loaded, flags.llm_cache);
  if (is_described) {
    const auto file = write_problem(
        {common, *installation, *machine, access, *prompts}, flags);
    if (!file) return file.error();
    flags.problem = *file;
    problem = read_file(flags.problem);
    if (!problem) return report_error(common, problem.error());
  }
  const auto folder = flags.out.value_or(default_run_folder(flags.problem));
  if (const auto freed = free_of_wrong_input(folder); !freed) {
    return report_error(common, freed.error());
  }
  const auto run = RunDirectory::create(folder);
  if (!run) return report_error(common, run.error());
  auto journal = Journal::create(run->journal(),
                                 flags.fast_sync ? Sync::normal : Sync::full);
  if (!journal) return report_error(common, journal.error());
  auto scratch = Scratch::make(*run);
  if (!scratch) return report_error(common, scratch.error());

  Display display(common);
  BlobStore blobs(*journal);
  const RunStart start = make_start(flags, *machine, blobs, *problem, *prompts);
  display.say("run directory: " + run->folder().string());
  say_protections(display, start.machine);
  say_untimed(display, start);
  const auto bus = open_bus(common, flags.listen, *run, *installation, *journal,
                            blobs, start);
  if (!bus) return report_error(common, bus.error());
  say_listening(display, bus->get());
  Production production =
      make_production(*run, *scratch, *installation, blobs, start, access);
  take_what_nodes_build(bus->get(), blobs, *production.cache);
  begin_bars(display, start, *run, blobs);
  HostOptions host = host_options(display);
  host.nodes = bus->get();
  const HostEnd end = host_run(*journal, blobs, production.ports, host,
                               address::extractor, start, interrupt.token());
  return conclude(common, display, *run, end);
}

int resume_command(const CommonFlags& common, const ResumeFlags& flags) {
  const Interrupt interrupt;
  auto loaded = load_settings(common.config);
  if (!loaded) return report_error(common, loaded.error());
  const auto run = RunDirectory::open(flags.run);
  if (!run) return report_error(common, run.error());
  const auto installation = ready_installation(common);
  if (!installation) return report_error(common, installation.error());
  auto journal = Journal::open(run->journal(), Sync::full);
  if (!journal) return report_error(common, journal.error());
  if (const auto sound = journal->verify(); !sound) {
    return report_error(common, sound.error());
  }
  const auto start = read_start(*journal);
  if (!start) return report_error(common, start.error());
  if (const auto tools = check_tools(start->options, *installation); !tools) {
    return report_error(common, tools.error());
  }
  if (const auto devices = check_devices(*start); !devices) {
    return report_error(common, devices.error());
  }
  auto scratch = Scratch::make(*run);
  if (!scratch) return report_error(common, scratch.error());

  Display display(common);
  BlobStore blobs(*journal);
  const auto bus = open_bus(common, flags.listen, *run, *installation, *journal,
                            blobs, *start);
  if (!bus) return report_error(common, bus.error());
  say_listening(display, bus->get());
  Production production =
      make_production(*run, *scratch, *installation, blobs, *start,
                      llm_access(*loaded, flags.llm_cache));
  take_what_nodes_build(bus->get(), blobs, *production.cache);
  begin_bars(display, *start, *run, blobs);
  if (const auto past = show_past(display, *journal); !past) {
    return report_error(common, past.error());
  }
  HostOptions options = host_options(display);
  options.nodes = bus->get();
  options.version_text = version_text(*start);
  if (flags.recorded) options.past = Replay::Past::recorded;
  const auto end = host_resume(*journal, blobs, production.ports, options,
                               interrupt.token());
  if (!end) return report_error(common, end.error());
  if (end->kind == HostEnd::Kind::finished) {
    const auto written = write_missing_files(*journal, *run);
    if (!written) return report_error(common, written.error());
  }
  return conclude(common, display, *run, *end);
}

}  // namespace weft
