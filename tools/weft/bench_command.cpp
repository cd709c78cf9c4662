#include "tools/weft/bench_command.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/device.hpp"
#include "config/llm_settings.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/sandbox/gpu.hpp"
#include "tools/weft/open_bus.hpp"
#include "tools/weft/python_driver.hpp"
#include "tools/weft/run_machine.hpp"
#include "tools/weft/settings_flags.hpp"
#include "tools/weft/version.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A run keeps about so many cores busy while others have the GPU.
constexpr int kCoresPerGpuRun = 4;
/// The driver opens one process at a time, whatever the device: 40 runs on
/// eight GPUs waited for it more than two with 12 ever did (2026-11-26, H200).
constexpr int kGpuRunsMax = 12;
/// Triton's interpreter uses one; the oracle's reference another.
constexpr int kCoresPerInterpretedRun = 2;

/// A problem whose language model answers in batches may wait for days.
constexpr double kBatchProblemS = 30 * 86'400;

/// What the runs will find here, worked out as they will.
struct BenchMachine {
  std::string target;
  std::string gpu;           ///< its name; empty: none, or none is wanted
  std::vector<int> devices;  ///< GPUs of that name that runs are spread over
  int cores = 1;
  bool is_timed = true;
};

/// The one that was asked for; else all that are like the first, so that
/// results can be compared.
std::vector<int> choose_devices(const std::vector<GpuDevice>& devices,
                                const BenchFlags& flags) {
  const auto& words = flags.run_words;
  if (std::find(words.begin(), words.end(), "--device") != words.end()) {
    return {flags.options.device};
  }
  std::vector<int> alike;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].facts.name == devices.front().facts.name) {
      alike.push_back(static_cast<int>(i));
    }
  }
  return alike;
}

Result<BenchMachine> find_machine(const CommonFlags& common,
                                  const BenchFlags& flags,
                                  const Installation& installation) {
  RunOptions options = flags.options;
  auto machine = resolve_machine(options, installation);
  if (!machine) return std::unexpected(machine.error());
  BenchMachine here;
  here.target = options.target;
  here.cores = machine->cores;
  here.is_timed = can_time(options, *machine);
  if (machine->gpus.empty()) return here;
  here.gpu = machine->gpus.front().name;
  here.devices = choose_devices(list_gpus().devices, flags);
  // Once, and not by all runs that begin at the same time.
  const auto probed = add_gpu_numbers(*machine, installation);
  if (!probed && !common.quiet) {
    std::fprintf(stderr, "weft: the GPU could not be measured: %s\n",
                 probed.error().message.c_str());
  }
  return here;
}

/// Runs on a processor would disturb each other's timing; those on a GPU take
/// turns at it by themselves.
int choose_jobs(const BenchMachine& here) {
  const int devices = static_cast<int>(here.devices.size());
  if (devices > 0) {
    return std::max(devices,
                    std::min(here.cores / kCoresPerGpuRun, kGpuRunsMax));
  }
  if (here.is_timed) return 1;
  return std::max(1, here.cores / kCoresPerInterpretedRun);
}

/// On a GPU all three of the framework's ways are baselines, unless told else.
std::vector<std::string> run_words(const CommonFlags& common,
                                   const BenchFlags& flags, bool on_gpu) {
  std::vector<std::string> words = flags.run_words;
  const bool is_autotuned = on_gpu && !flags.no_autotune &&
                            !flags.options.autotune_baseline &&
                            flags.options.compile_baseline;
  if (is_autotuned) words.push_back("--autotune-baseline");
  // KernelBench's rules: the kernels of a bench are generated ones.
  const auto is_named = [&](const char* flag) {
    return std::ranges::find(words, flag) != words.end();
  };
  if (on_gpu && !is_named("--seeds")) {
    words.push_back("--seeds");
    words.push_back(is_named("--library") ? "library,compiler" : "compiler");
  }
  // What is measured must not depend on what was asked before.
  words.push_back("--no-llm-cache");
  if (common.config) {
    words.push_back("--config");
    words.push_back(std::filesystem::absolute(*common.config).string());
  }
  return words;
}

/// Whether runs may be suspended until a batch of their language model's
/// provider has ended: they have no budget of time. Whatever is wrong with the
/// settings, the runs say.
bool waits_for_batches(const CommonFlags& common, const BenchFlags& flags) {
  const std::string& name = flags.options.llm.name;
  if (name.empty()) return false;
  const auto loaded = load_settings(common.config);
  if (!loaded) return false;
  const auto providers = providers_of(loaded->endpoints, name);
  return providers && std::ranges::any_of(*providers, [&](const auto& one) {
           return find_endpoint(loaded->endpoints, one.name)->batch;
         });
}

std::string baseline_folder_of(const BenchFlags& flags) {
  if (!flags.beside) return "";
  return fs::absolute(*flags.beside).lexically_normal().string();
}

/// The bench uses these once it knows the class of its nodes. Null: no nodes.
json fleet_settings(const CommonFlags& common, const BenchFlags& flags,
                    const std::string& name) {
  const ListenFlags& listen = flags.listen;
  if (listen.endpoint.empty()) return nullptr;
  return {
      {"endpoint", listen.endpoint},
      {"keys", listen.keys ? fs::absolute(*listen.keys).string() : ""},
      {"classes", listen.classes},
      {"node_seconds", listen.silence_s},
      {"target", flags.options.target},
      {"jobs", flags.jobs},
      {"default_out",
       flags.out ? "" : fs::absolute(fs::path("weft-bench") / name).string()},
      {"gpu_run_flags", run_words(common, flags, true)}};
}

json settings(const CommonFlags& common, const BenchFlags& flags,
              const BenchMachine& here, const Installation& installation) {
  std::error_code ignored;
  const fs::path folder = fs::absolute(flags.folder).lexically_normal();
  const fs::path name = folder.has_filename() ? folder.filename()
                                              : folder.parent_path().filename();
  const fs::path out = flags.out.value_or(fs::path("weft-bench") /
                                          (name.string() + "-" + here.target));
  const bool on_gpu = !here.gpu.empty();
  const bool has_batches = waits_for_batches(common, flags);
  return {
      {"weft", fs::read_symlink("/proc/self/exe", ignored).string()},
      {"version", weft_version()},
      {"python", installation.python.string()},
      {"folder", folder.string()},
      {"beside", baseline_folder_of(flags)},
      {"levels", flags.levels},
      {"only", flags.only},
      {"out", fs::absolute(out).lexically_normal().string()},
      {"limit_s", 60 * flags.limit_minutes},
      {"problem_s", has_batches ? kBatchProblemS : 60 * flags.problem_minutes},
      {"jobs", flags.jobs > 0 ? flags.jobs : choose_jobs(here)},
      {"rerun", flags.rerun},
      {"rerun_failed", flags.rerun_failed},
      {"target", here.target},
      {"gpu", here.gpu},
      {"devices", here.devices},
      {"timed", here.is_timed},
      {"run_flags", run_words(common, flags, on_gpu)},
      {"fleet", fleet_settings(common, flags, name.string())},
      {"has_budget", flags.options.budget_ms > 0 || has_batches},
      {"json", common.json},
      {"quiet", common.quiet}};
}

}  // namespace

int bench_command(const CommonFlags& common, const BenchFlags& flags) {
  if (const auto closed = check_listening(flags.listen); !closed) {
    return report_error(common, closed.error());
  }
  std::error_code ignored;
  for (const fs::path& folder : {flags.folder, flags.beside.value_or(".")}) {
    if (fs::is_directory(folder, ignored)) continue;
    return report_error(common,
                        {ErrorCode::wrong_input,
                         "no such folder: " + folder.string() +
                             "; name a KernelBench checkout, or a folder of "
                             "problem files"});
  }
  const bool is_local = flags.listen.endpoint.empty();
  const auto installation = ready_installation(common, is_local);
  if (!installation) return report_error(common, installation.error());
  const auto here = is_local ? find_machine(common, flags, *installation)
                             : Result<BenchMachine>(BenchMachine{});
  if (!here) return report_error(common, here.error());
  return report_error(
      common, become_python(*installation, "weft.bench.bench_loop",
                            settings(common, flags, *here, *installation)));
}

}  // namespace weft
