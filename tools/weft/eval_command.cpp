#include "tools/weft/eval_command.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <stop_token>
#include <thread>

#include "compiler/targets.hpp"
#include "runtime/machine/device_choice.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/ports/oracle_process.hpp"
#include "runtime/sandbox/sandbox_mode.hpp"
#include "tools/weft/eval_report.hpp"
#include "tools/weft/interrupt.hpp"
#include "tools/weft/temporary_folder.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Loading the reference, its runs, and torch.compile of it.
constexpr std::int64_t kReferenceMs = 900'000;
/// Calls of the candidate for one verdict, at most: cases, timing, traces.
constexpr std::int64_t kCallsMax = 60;
/// A compiler, its linker and the threads of all of them.
constexpr int kProcessesMax = 1024;

/// Where the candidate runs, and whether Triton's interpreter stands in.
struct EvalDevice {
  std::string device = "cpu";
  bool interprets = false;
};

Result<EvalDevice> choose_device(const EvalFlags& flags) {
  const Target* target = find_target(flags.target);  // null: "auto"
  if (target && !target->on_gpu) return EvalDevice{"cpu", true};
  const GpuList list = list_gpus();
  const std::string number = std::to_string(flags.device);
  // "auto" goes to the processor where there is none, as a run does.
  if (!list.devices.empty() || (target && flags.device > 0)) {
    const auto gpus = choose_gpus({number}, flags.device, list);
    if (!gpus) return std::unexpected(gpus.error());
    return EvalDevice{"cuda:" + number, false};
  }
  if (target && target->needs_gpu) {
    return fail(ErrorCode::missing,
                "no CUDA device: use --target cpu or triton, or run "
                "'weft doctor'");
  }
  return EvalDevice{"cpu", true};
}

OracleOptions oracle_options(const EvalFlags& flags, const EvalDevice& device,
                             const TemporaryFolder& folder) {
  OracleOptions oracle;
  oracle.scratch = folder.path() / "slot";
  oracle.log = folder.path() / "oracle.log";
  oracle.threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  oracle.memory_bytes = flags.memory_bytes;
  oracle.processes = kProcessesMax;
  oracle.device = device.device;
  oracle.untrusted_problem = flags.untrusted_problem;
  oracle.problems = folder.path() / "problems";
  if (device.interprets) oracle.environment = {{"TRITON_INTERPRET", "1"}};
  return oracle;
}

json question(const EvalFlags& flags, const EvalDevice& device,
              const fs::path& candidate) {
  const bool timed = !flags.no_timing;
  json baselines = json::array({"eager"});
  if (flags.compile_baseline) baselines.push_back("compile");
  return {{"verb", "eval"},
          {"problem", fs::absolute(flags.reference).string()},
          {"candidate", fs::absolute(candidate).string()},
          {"precision", flags.precision},
          {"mode", flags.mode},
          {"interprets", device.interprets},
          {"random_seed", *flags.random_seed},
          {"baselines", timed ? baselines : json::array()},
          {"budget_ms", flags.timing_ms},
          {"limits",
           {{"wall_ms", flags.call_ms}, {"memory_bytes", flags.memory_bytes}}}};
}

/// Every file must be there before any time is spent on the first.
Result<void> check_files(const EvalFlags& flags) {
  std::vector<fs::path> files = flags.candidates;
  files.insert(files.begin(), flags.reference);
  for (const fs::path& file : files) {
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) continue;
    return fail(ErrorCode::wrong_input,
                "no such file: " + file.string() + "; check the path");
  }
  return {};
}

/// " (it said: …)", from the end of the oracle's log; empty if it said nothing.
std::string last_words(const fs::path& log) {
  std::ifstream in(log);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(" \t") != std::string::npos) last = line;
  }
  return last.empty() ? "" : " (it said: " + last.substr(0, 500) + ")";
}

/// One oracle for all candidates; one that breaks is replaced.
class Evaluator {
 public:
  /// `flags` outlive it. missing: a device, an installation, a folder.
  static Result<std::unique_ptr<Evaluator>> make(const CommonFlags& common,
                                                 const EvalFlags& flags) {
    if (flags.untrusted_problem) {
      const auto boxed = check_has_sandbox("--untrusted-problem");
      if (!boxed) return std::unexpected(boxed.error());
    }
    auto device = choose_device(flags);
    if (!device) return std::unexpected(device.error());
    const auto installation = ready_installation(common);
    if (!installation) return std::unexpected(installation.error());
    auto folder = TemporaryFolder::make("weft-eval-");
    if (!folder) return std::unexpected(folder.error());
    const OracleOptions options = oracle_options(flags, *device, *folder);
    std::error_code ignored;
    fs::create_directories(options.scratch, ignored);
    fs::create_directories(options.problems, ignored);
    return std::unique_ptr<Evaluator>(
        new Evaluator(flags, std::move(*device), std::move(*folder),
                      oracle_command(*installation, options)));
  }

  Result<json> evaluate(const fs::path& candidate) {
    const auto oracle = running();
    if (!oracle) return std::unexpected(oracle.error());
    const std::int64_t wall_ms =
        kReferenceMs + flags_.timing_ms + kCallsMax * flags_.call_ms;
    auto asked = question(flags_, device_, candidate);
    if (flags_.untrusted_problem) {
      const auto shown = show_files(asked);
      if (!shown) return std::unexpected(shown.error());
    }
    auto answer = ask_oracle(**oracle, std::move(asked), wall_ms);
    if (!answer.is_usable) {
      answer.reply.error().message += last_words(command_.log);
      const std::lock_guard lock(mutex_);
      oracle_.reset();
    }
    if (!answer.reply) return std::unexpected(answer.reply.error());
    json evaluation = answer.reply->value("evaluation", json::object());
    if (is_sandbox_off()) evaluation["sandbox"] = "none";
    return evaluation;
  }

  /// Ends the evaluation under way, and all after it. Any thread.
  void stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (oracle_) oracle_->kill();
  }

 private:
  Evaluator(const EvalFlags& flags, EvalDevice device, TemporaryFolder folder,
            LineCommand command)
      : flags_(flags),
        device_(std::move(device)),
        folder_(std::move(folder)),
        command_(std::move(command)) {}

  /// Copies what a sandboxed oracle reads to where it may.
  Result<void> show_files(json& question) const {
    for (const char* which : {"problem", "candidate"}) {
      const fs::path from = question[which].get<std::string>();
      const auto bytes = read_file(from);
      if (!bytes) return std::unexpected(bytes.error());
      const fs::path to = folder_.path() / "problems" / which / from.filename();
      const auto done = write_file_whole(to, *bytes);
      if (!done) return done;
      question[which] = to.string();
    }
    return {};
  }

  Result<std::shared_ptr<LineProcess>> running() {
    const std::lock_guard lock(mutex_);
    if (stopping_) return fail(ErrorCode::failed, "interrupted");
    if (oracle_) return oracle_;
    auto started = LineProcess::start(command_);
    if (!started) return std::unexpected(started.error());
    oracle_ = std::make_shared<LineProcess>(std::move(*started));
    return oracle_;
  }

  const EvalFlags& flags_;
  const EvalDevice device_;
  const TemporaryFolder folder_;
  const LineCommand command_;
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<LineProcess> oracle_;
  bool stopping_ = false;
};

/// The exit code for all candidates together.
int evaluate_all(const CommonFlags& common, const EvalFlags& flags,
                 Evaluator& evaluator, const std::stop_token& stop) {
  int code = 0;
  for (const fs::path& candidate : flags.candidates) {
    auto evaluation = evaluator.evaluate(candidate);
    if (stop.stop_requested()) {
      std::fprintf(stderr, "weft: interrupted\n");
      return 130;
    }
    if (!evaluation) {
      code = std::max(code, report_error(common, evaluation.error()));
      // No candidate would fare better where something is missing.
      if (evaluation.error().code == ErrorCode::missing) break;
      continue;
    }
    show_evaluation(common, flags.reference, candidate, *evaluation);
    if (!evaluation->value("accepted", false)) code = std::max(code, 1);
  }
  return code;
}

}  // namespace

Result<Judgement> judge(const CommonFlags& common, EvalFlags flags) {
  if (!flags.random_seed) flags.random_seed = std::random_device{}();
  const auto evaluator = Evaluator::make(common, flags);
  if (!evaluator) return std::unexpected(evaluator.error());
  const auto found = (*evaluator)->evaluate(flags.candidates.front());
  if (!found) return std::unexpected(found.error());
  const json verdict = found->value("verdict", json::object());
  return Judgement{found->value("accepted", false),
                   verdict.value("reason", std::string())};
}

int eval_command(const CommonFlags& common, EvalFlags flags) {
  if (!flags.random_seed) flags.random_seed = std::random_device{}();
  const Interrupt interrupt;
  if (const auto there = check_files(flags); !there) {
    return report_error(common, there.error());
  }
  const auto evaluator = Evaluator::make(common, flags);
  if (!evaluator) return report_error(common, evaluator.error());
  const std::stop_callback on_stop(interrupt.token(),
                                   [&] { (*evaluator)->stop(); });
  return evaluate_all(common, flags, **evaluator, interrupt.token());
}

}  // namespace weft
