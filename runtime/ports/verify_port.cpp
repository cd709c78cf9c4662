#include "runtime/ports/verify_port.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "actors/device.hpp"
#include "messages/protection.hpp"
#include "messages/untrusted.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/machine/stopwatch.hpp"
#include "runtime/ports/cancellable_work.hpp"
#include "runtime/ports/gpu_probe.hpp"
#include "runtime/ports/oracle_answers.hpp"
#include "runtime/ports/oracle_process.hpp"
#include "runtime/sandbox/sandbox_mode.hpp"
#include "runtime/store/untrusted_files.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::int64_t kBuildWallMs = 180'000;
/// The composer's last timing with torch.compile and max-autotune, without the
/// times that the run sets (actors/composer.cpp).
constexpr std::int64_t kWallMsMax = 3'300'000;

/// Of "cuda:0".
std::optional<std::size_t> cuda_number(const std::string& device) {
  constexpr std::string_view cuda = "cuda:";
  if (!device.starts_with(cuda)) return std::nullopt;
  return std::stoul(device.substr(cuda.size()));
}

json baselines(bool with_compile, bool with_autotune) {
  json names = json::array({"eager"});
  if (with_compile) names.push_back("compile");
  if (with_autotune) names.push_back("compile-autotune");
  return names;
}

std::string verb_for(const Subject& subject, const std::string& verb) {
  return subject.target == "model" ? verb + "_model" : verb;
}

}  // namespace

VerifyPort::VerifyPort(Blobs& blobs, KernelCache& cache, Options options)
    : blobs_(blobs), cache_(cache), options_(std::move(options)) {
  for (int i = 0; i < options_.slots; ++i) {
    slots_.push_back({options_.slot_name + std::to_string(i), false, nullptr});
  }
  queue_ = std::make_unique<WorkQueue>(slots_.size());
}

VerifyPort::~VerifyPort() {
  cache_.cancel();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Slot& slot : slots_) {
      if (slot.oracle) slot.oracle->kill();
    }
  }
  freed_.notify_all();
  queue_.reset();
}

void VerifyPort::start(const Message& request, Reply reply) {
  begin(request, {}, std::move(reply));
}

void VerifyPort::begin(const Message& request, std::stop_token cancelled,
                       Reply reply) {
  push_cancellable(
      *queue_, request, cancelled, std::move(reply),
      [this, request, cancelled] { return answer(request, cancelled); });
}

void VerifyPort::warm_up(const RunStart& start) {
  if (options_.device == "cpu") {
    queue_->push([this] {
      Slot& slot = take_slot({});
      // What fails here fails again where it is needed, and is told there.
      const bool is_started = start_oracle(slot, true).has_value();
      give_back(slot, !is_started);
    });
    return;
  }
  queue_->push([this, problem = start.problem, options = start.options] {
    const auto file = materialise(problem, ".py");
    if (!file) return;
    // What fails here fails again where it is needed, and is told there.
    (void)ask({{"verb", "prepare_model"},
               {"problem", file->string()},
               {"mode", options.mode},
               {"random_seed", options.random_seed},
               {"baselines", baselines(options.compile_baseline,
                                       options.autotune_baseline)}},
              options.capture_ms);
  });
}

Message VerifyPort::answer(const Message& request,
                           const std::stop_token& cancelled) {
  // A sandboxed oracle's answer is as little trusted as its problem is.
  try {
    return asked(request, cancelled);
  } catch (const json::exception& error) {
    return failed_reply(request, {"failed",
                                  "the oracle's answer has a value of another "
                                  "type: " +
                                      std::string(error.what())});
  }
}

void VerifyPort::take_run(Options& options, const RunStart& start) {
  const RunOptions& run = start.options;
  options.interprets = !can_time(run, start.machine);
  options.precision = run.precision;
  options.untrusted_problem = is_problem_untrusted(start);
  options.memory_bytes = run.memory_bytes;
  options.call_ms = run.call_ms;
  options.timing_ms = std::max(run.timing_ms, run.final_timing_ms);
}

std::int64_t VerifyPort::wall_ms_max() const {
  return kWallMsMax + options_.timing_ms + 2 * options_.call_ms;
}

Message VerifyPort::asked(const Message& request,
                          const std::stop_token& cancelled) {
  if (const auto* m = std::get_if<CheckRequest>(&request)) {
    CheckRequest held = *m;
    held.call_ms = std::min(held.call_ms, options_.call_ms);
    held.wall_ms = std::min(held.wall_ms, wall_ms_max());
    return check(held, cancelled);
  }
  if (const auto* m = std::get_if<TimeRequest>(&request)) {
    TimeRequest held = *m;
    held.call_ms = std::min(held.call_ms, options_.call_ms);
    held.budget_ms = std::min(held.budget_ms, options_.timing_ms);
    held.wall_ms = std::min(held.wall_ms, wall_ms_max());
    return time(held, cancelled);
  }
  return probe(std::get<ProbeRequest>(request), cancelled);
}

CheckReply VerifyPort::check(const CheckRequest& request,
                             const std::stop_token& cancelled) {
  const Stopwatch watch;
  CheckReply reply;
  reply.effect = request.effect;
  auto fields = subject_fields(request.subject, cancelled);
  Result<json> answer = std::move(fields);
  if (answer) {
    json question = std::move(*answer);
    question["verb"] = verb_for(request.subject, "check");
    question["random_seed"] = request.random_seed;
    question["rules"] = request.rules;
    question["baselines"] = baselines(request.with_compile, false);
    question["limits"] = {{"wall_ms", request.call_ms},
                          {"memory_bytes", request.memory_bytes}};
    answer = ask(std::move(question), request.wall_ms, cancelled);
  }
  reply.wall_ms = watch.elapsed_ms();
  if (answer) {
    reply.waited_ms = answer->value("waited_ms", std::int64_t{0});
    reply.verdict = verdict_from(answer->value("verdict", json::object()));
  } else {
    reply.failure = to_failure(answer.error());
  }
  return reply;
}

TimeReply VerifyPort::time(const TimeRequest& request,
                           const std::stop_token& cancelled) {
  const Stopwatch watch;
  TimeReply reply;
  reply.effect = request.effect;
  Result<json> answer = subject_fields(request.subject, cancelled);
  if (answer) {
    json question = std::move(*answer);
    question["verb"] = verb_for(request.subject, "time");
    question["random_seed"] = request.random_seed;
    question["budget_ms"] = request.budget_ms;
    question["baselines"] =
        baselines(request.with_compile, request.with_autotune);
    question["limits"] = {{"wall_ms", request.call_ms},
                          {"memory_bytes", request.memory_bytes}};
    answer = ask(std::move(question), request.wall_ms, cancelled);
  }
  reply.wall_ms = watch.elapsed_ms();
  if (!answer) {
    reply.failure = to_failure(answer.error());
    return reply;
  }
  reply.waited_ms = answer->value("waited_ms", std::int64_t{0});
  const json timing = answer->value("timing", json::object());
  reply.timing = timing_from(timing);
  reply.rejected = timing.value("rejected", "");
  if (reply.rejected.empty() && reply.timing.outputs_wrong > 0) {
    reply.rejected = std::to_string(reply.timing.outputs_wrong) +
                     " of the timed calls whose outputs were compared gave "
                     "wrong ones";
  }
  return reply;
}

ProbeReply VerifyPort::probe(const ProbeRequest& request,
                             const std::stop_token& cancelled) {
  ProbeReply reply;
  reply.effect = request.effect;
  const auto number = cuda_number(options_.device);
  const GpuList gpus = number ? list_gpus() : GpuList();
  if (number) reply.gpu = known_gpu(options_.installation, gpus, *number);
  // Measuring has a device alone: others would wait for what is known.
  const auto answer = ask({{"verb", "probe"}, {"gpu", reply.gpu.empty()}},
                          request.wall_ms, cancelled);
  if (!answer) {
    reply.failure = to_failure(answer.error());
    return reply;
  }
  const json machine = answer->value("machine", json::object());
  reply.torch = machine.value("torch", "");
  reply.copy_gbps = machine.value("copy_gbps", 0.0);
  reply.threads = machine.value("threads", 0);
  if (reply.gpu.empty()) {
    reply.gpu = gpu_numbers(machine);
    if (number) keep_gpu(options_.installation, gpus, *number, machine);
  }
  return reply;
}

/// The request's fields that say what is verified, as files.
Result<json> VerifyPort::subject_fields(const Subject& subject,
                                        const std::stop_token& cancelled) {
  const bool whole = subject.target == "model";
  const auto against = materialise(subject.against, whole ? ".py" : ".json");
  if (!against) return std::unexpected(against.error());
  if (whole) {
    const auto composed = materialise(subject.source, ".py");
    if (!composed) return std::unexpected(composed.error());
    for (const BuiltKernel& kernel : subject.kernels) {
      const auto there =
          built({kernel.target, "", kernel.source, kernel.artefact}, cancelled);
      if (!there) return std::unexpected(there.error());
    }
    json fields = {{"problem", against->string()},
                   {"composed", composed->string()}};
    if (!subject.mode.empty()) fields["mode"] = subject.mode;
    return fields;
  }
  const auto kernel = built(subject, cancelled);
  if (!kernel) return std::unexpected(kernel.error());
  if (kernel->file.empty()) {
    return fail(ErrorCode::failed, "the kernel no longer builds");
  }
  return json{{"subgraph", against->string()},
              {"candidate",
               {{"kind", subject.target}, {"library", kernel->file.string()}}}};
}

/// There already, as a rule: built at this location, or brought along.
Result<KernelCache::Built> VerifyPort::built(const Subject& subject,
                                             const std::stop_token& cancelled) {
  const auto source = blobs_.get(subject.source);
  if (!source) return std::unexpected(source.error());
  if (!subject.artefact.empty()) {
    const auto artefact = blobs_.get(subject.artefact);
    if (!artefact) return std::unexpected(artefact.error());
    return cache_.take(subject.target, *source, options_.arch, *artefact);
  }
  BuildTerms terms(kBuildWallMs);
  terms.arch = options_.arch;
  terms.cancelled = cancelled;
  return cache_.build(subject.target, *source, terms);
}

Result<json> VerifyPort::ask(json request, std::int64_t wall_ms,
                             const std::stop_token& cancelled) {
  Slot& slot = take_slot(cancelled);
  auto oracle = start_oracle(slot);
  if (!oracle) {
    give_back(slot, true);
    return std::unexpected(oracle.error());
  }
  auto answer = ask_oracle(**oracle, std::move(request), wall_ms, cancelled);
  give_back(slot, !answer.is_usable);
  if (!answer.is_usable) {
    answer.reply.error().message += " (its log is in the run's logs/)";
  }
  return std::move(answer.reply);
}

/// A blob as a file that the oracle can read, in the run's scratch.
Result<fs::path> VerifyPort::materialise(const std::string& blob,
                                         const std::string& suffix) {
  if (const auto named = check_file_name(blob); !named) {
    return std::unexpected(named.error());
  }
  const fs::path file = options_.scratch / "subjects" / (blob + suffix);
  if (fs::exists(file)) return file;
  const auto bytes = blobs_.get(blob);
  if (!bytes) return std::unexpected(bytes.error());
  const auto done = write_file_whole(file, *bytes);
  if (!done) return std::unexpected(done.error());
  return file;
}

/// There is one thread a slot, so one is free unless it is being emptied.
VerifyPort::Slot& VerifyPort::take_slot(const std::stop_token& cancelled) {
  std::unique_lock lock(mutex_);
  const auto is_warm = [](const Slot& slot) {
    return !slot.busy && slot.oracle;
  };
  // A warm slot first: the other's oracle may never be needed. One that is at
  // work has often answered before another would have loaded PyTorch.
  freed_.wait_for(lock, cancelled, options_.patience_ms * 1ms, [&] {
    return stopping_ || std::ranges::any_of(slots_, is_warm) ||
           std::ranges::none_of(slots_, &Slot::busy);
  });
  freed_.wait(lock,
              [this] { return !std::ranges::all_of(slots_, &Slot::busy); });
  auto chosen = std::ranges::find_if(slots_, is_warm);
  if (chosen == slots_.end()) {
    chosen = std::ranges::find(slots_, false, &Slot::busy);
  }
  chosen->busy = true;
  return *chosen;
}

void VerifyPort::give_back(Slot& slot, bool is_broken) {
  {
    const std::lock_guard lock(mutex_);
    slot.busy = false;
    if (is_broken) slot.oracle.reset();
  }
  freed_.notify_all();  // some wait for a warm one only
}

void VerifyPort::empty_idle_slots() {
  for (Slot& slot : slots_) {
    std::shared_ptr<LineProcess> oracle;
    {
      const std::lock_guard lock(mutex_);
      if (slot.busy) continue;
      slot.busy = true;
      oracle = std::exchange(slot.oracle, nullptr);
    }
    oracle.reset();
    // What cannot be removed now is at the end of the run.
    (void)empty_folder(options_.scratch / slot.name);
    give_back(slot, false);
  }
}

Result<std::shared_ptr<LineProcess>> VerifyPort::start_oracle(
    const Slot& slot, bool with_baseline) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return fail(ErrorCode::failed, "the run stops");
    if (slot.oracle) return slot.oracle;
  }
  if (options_.untrusted_problem) {
    const auto boxed = check_has_sandbox("a problem that is not trusted");
    if (!boxed) return std::unexpected(boxed.error());
  }
  std::error_code ignored;
  fs::create_directories(options_.scratch / slot.name, ignored);
  fs::create_directories(options_.scratch / "subjects", ignored);
  fs::create_directories(options_.logs, ignored);
  auto process = LineProcess::start(command_for(slot, with_baseline));
  if (!process) return std::unexpected(process.error());
  auto oracle = std::make_shared<LineProcess>(std::move(*process));
  const std::lock_guard lock(mutex_);
  for (Slot& mine : slots_) {
    if (&mine == &slot) mine.oracle = oracle;
  }
  if (stopping_) oracle->kill();
  return oracle;
}

LineCommand VerifyPort::command_for(const Slot& slot,
                                    bool with_baseline) const {
  OracleOptions oracle;
  oracle.scratch = options_.scratch / slot.name;
  oracle.log = options_.logs / ("oracle-" + slot.name + ".log");
  oracle.threads = options_.threads;
  oracle.memory_bytes = options_.memory_bytes;
  oracle.readable = {cache_.folder()};
  oracle.device = options_.device;
  oracle.words = {"--precision", options_.precision};
  if (with_baseline) oracle.words.emplace_back("--with-baseline");
  oracle.untrusted_problem = options_.untrusted_problem;
  oracle.problems = options_.scratch / "subjects";
  if (options_.interprets) {
    oracle.environment.emplace_back("TRITON_INTERPRET", "1");
  } else {
    // Other builds of a module go to its job's folder.
    oracle.environment.emplace_back("WEFT_BUILT_KERNELS",
                                    cache_.folder().string());
  }
  return oracle_command(options_.installation, oracle);
}

}  // namespace weft
