#include "runtime/machine/installation.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "embedded/runtime/machine/ask_python.py"
#include "messages/parse_json.hpp"
#include "messages/protection.hpp"
#include "runtime/sandbox/line_process.hpp"
#include "runtime/sandbox/sandbox.hpp"
#include "runtime/sandbox/sandbox_mode.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The same program without "..": a sandbox has not the folders that such a
/// path only passes through.
fs::path direct(const fs::path& program) {
  const fs::path plain = fs::absolute(program).lexically_normal();
  std::error_code error;
  const bool is_same = fs::equivalent(
      plain.parent_path(), fs::absolute(program).parent_path(), error);
  return is_same ? plain : program;
}

/// `program` as the shell would find it; empty when it would not.
fs::path on_path(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    return access(program.c_str(), X_OK) == 0 ? direct(program) : fs::path();
  }
  const std::string path = variable("PATH");
  for (std::size_t from = 0; from <= path.size();) {
    const auto colon = std::min(path.find(':', from), path.size());
    const fs::path file = fs::path(path.substr(from, colon - from)) / program;
    if (access(file.c_str(), X_OK) == 0 && !fs::is_directory(file)) return file;
    from = colon + 1;
  }
  return {};
}

/// Where the Python side and its own environment may be: WEFT_HOME (a checkout
/// or an installation's share/weft), then what lies around this program.
struct Home {
  fs::path workers;
  fs::path environment;
};

std::vector<Home> homes() {
  std::vector<Home> found;
  if (const std::string home = variable("WEFT_HOME"); !home.empty()) {
    const fs::path own = fs::path(home) / ".venv";
    found.push_back({fs::path(home) / "python",
                     fs::exists(own) ? own : fs::path(home) / "venv"});
  }
  std::error_code error;
  const fs::path folder =
      fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path above = folder.parent_path();
  found.push_back({above / "share/weft/python", above / "share/weft/venv"});
  found.push_back({above / "python", above / ".venv"});
  // In a wheel the programs are the package's own: weft/native/bin.
  if (above.filename() == "native") {
    found.push_back({above.parent_path().parent_path(), {}});
  }
  return found;
}

struct Choice {
  fs::path python;
  std::string from;
};

Result<Choice> choose_python(const std::optional<std::string>& flag,
                             const fs::path& own_environment) {
  const auto named = [](const std::string& name,
                        const std::string& from) -> Result<Choice> {
    const fs::path python = on_path(name);
    if (!python.empty()) return Choice{python, from};
    return fail(ErrorCode::missing,
                from + " names '" + name + "', which is no program here");
  };
  if (flag) return named(*flag, "--python");
  if (const auto name = variable("WEFT_PYTHON"); !name.empty()) {
    return named(name, "WEFT_PYTHON");
  }
  const fs::path own = own_environment / "bin/python";
  if (access(own.c_str(), X_OK) == 0) {
    return Choice{own, "weft's own environment"};
  }
  const fs::path system = on_path("python3");
  if (!system.empty()) return Choice{system, "python3 on the PATH"};
  return fail(ErrorCode::missing,
              "no Python: install python3, or name one with --python or "
              "WEFT_PYTHON");
}

Result<void> ask_python(Installation& installation) {
  auto process = LineProcess::start({{installation.python.string(), "-P", "-c",
                                      embedded::runtime_machine_ask_python},
                                     {},
                                     {}});
  if (!process) return std::unexpected(process.error());
  const auto line = process->ask("", 30'000);
  const auto answer = parse_json(line.value_or(""));
  if (!answer.is_object()) {
    return fail(ErrorCode::missing,
                installation.python.string() +
                    " does not work as a Python 3: run it by hand to see why");
  }
  installation.python_version = answer.value("version", "");
  installation.torch_version = answer.value("torch", "");
  installation.triton_version = answer.value("triton", "");
  installation.nvrtc = answer.value("nvrtc", "");
  installation.has_bytecode = answer.value("has_bytecode", true);
  installation.torch_files = answer.value("torch_files", "");
  for (const std::string& root :
       answer.value("roots", std::vector<std::string>{})) {
    if (fs::exists(root)) installation.python_roots.emplace_back(root);
  }
  return {};
}

/// "2.13.0+cpu" -> {2, 13}.
std::pair<int, int> major_minor(const std::string& version) {
  int major = 0;
  int minor = 0;
  std::sscanf(version.c_str(), "%d.%d", &major, &minor);
  return {major, minor};
}

/// The flags of /proc/cpuinfo that matter to the author of a kernel.
constexpr std::array kInstructionSets = {
    "sse4_2",      "avx",         "avx2",     "fma",      "f16c",
    "avx512f",     "avx512bw",    "avx512dq", "avx512vl", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8", "asimd",
    "sve",         "sve2",        "bf16"};

std::int64_t cache_bytes(int level) {
  // sysconf knows the caches of this processor; 0 or -1 where it does not.
  const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
                       _SC_LEVEL3_CACHE_SIZE};
  return sysconf(names[level - 1]);
}

std::string processor_line(const std::string& field) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(field)) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos) return line.substr(colon + 1);
  }
  return "";
}

/// Kernels are built in the sandbox, which shows the system's own folders.
Result<void> check_shown(const fs::path& compiler) {
  std::error_code error;
  const fs::path real = fs::canonical(compiler, error);
  for (const char* folder : {"/usr/", "/bin/", "/lib/", "/lib64/"}) {
    if (real.string().starts_with(folder)) return {};
  }
  return fail(ErrorCode::missing,
              "the C++ compiler '" + compiler.string() + "' (" + real.string() +
                  ") lies where the sandbox does not show it: install one "
                  "below /usr, and name that one with CXX");
}

std::string trimmed(const std::string& text) {
  const auto from = text.find_first_not_of(" \t");
  return from == std::string::npos ? "" : text.substr(from);
}

/// Where Hugging Face's packages keep what they once fetched; empty: nowhere.
/// What lies above it, a token among it, is shown to no box.
fs::path hub_cache() {
  const auto named = [](const char* variable) -> fs::path {
    const char* value = std::getenv(variable);
    return value == nullptr ? "" : value;
  };
  fs::path folder = named("HF_HUB_CACHE");
  if (folder.empty()) folder = named("HUGGINGFACE_HUB_CACHE");
  if (folder.empty() && !named("HF_HOME").empty()) {
    folder = named("HF_HOME") / "hub";
  }
  if (folder.empty() && !named("XDG_CACHE_HOME").empty()) {
    folder = named("XDG_CACHE_HOME") / "huggingface/hub";
  }
  if (folder.empty() && !named("HOME").empty()) {
    folder = named("HOME") / ".cache/huggingface/hub";
  }
  std::error_code gone;
  if (!fs::is_directory(folder, gone)) return "";
  return fs::canonical(folder, gone);
}

}  // namespace

Result<Installation> find_installation(const std::optional<std::string>& flag) {
  Installation installation;
  fs::path environment;
  for (const Home& home : homes()) {
    if (!fs::exists(home.workers / "weft/__init__.py")) continue;
    installation.worker_path = home.workers;
    environment = home.environment;
    break;
  }
  if (installation.worker_path.empty()) {
    return fail(
        ErrorCode::missing,
        "weft's Python package was not found next to this program: reinstall "
        "weft, or set WEFT_HOME to its checkout");
  }
  auto choice = choose_python(flag, environment);
  if (!choice) return std::unexpected(choice.error());
  installation.python = choice->python;
  installation.python_from = choice->from;
  if (const auto asked = ask_python(installation); !asked) {
    return std::unexpected(asked.error());
  }
  return installation;
}

std::vector<fs::path> python_readable(const Installation& installation) {
  std::vector<fs::path> folders = installation.python_roots;
  folders.push_back(installation.worker_path);
  // Whoever has cleared the cache meanwhile makes processes slow, not fail.
  std::error_code gone;
  if (fs::exists(installation.bytecode, gone)) {
    folders.push_back(installation.bytecode);
  }
  if (const fs::path hub = hub_cache(); !hub.empty()) folders.push_back(hub);
  return folders;
}

std::vector<std::pair<std::string, std::string>> python_environment(
    const Installation& installation) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"PYTHONPATH", installation.worker_path.string()},
      {"PYTHONDONTWRITEBYTECODE", "1"}};
  if (!installation.bytecode.empty()) {
    variables.emplace_back("WEFT_BYTECODE", installation.bytecode.string());
  }
  // Threads that wait for each other spin for milliseconds, as a rule. Where
  // two share a processor of a busy machine, the one that is waited for has to
  // wait for that, in every call of its process's life. This is some 50 us.
  variables.emplace_back("GOMP_SPINCOUNT", "2000");
  // A box has no network: what the cache lacks is said at once, not after five
  // tries in half a minute.
  variables.emplace_back("HF_HUB_OFFLINE", "1");
  if (const fs::path hub = hub_cache(); !hub.empty()) {
    variables.emplace_back("HF_HUB_CACHE", hub.string());
  }
  return variables;
}

Result<void> check_torch(const Installation& installation) {
  const std::string who =
      installation.python.string() + " (from " + installation.python_from + ")";
  if (installation.torch_version.empty()) {
    return fail(ErrorCode::missing,
                who +
                    " has no PyTorch: run tools/setup, or name another "
                    "Python with --python or WEFT_PYTHON");
  }
  if (major_minor(installation.torch_version) < major_minor(kTorchVersionMin)) {
    return fail(ErrorCode::missing,
                who + " has PyTorch " + installation.torch_version +
                    "; weft needs " + kTorchVersionMin + " or newer");
  }
  return {};
}

Result<void> check_triton(const Installation& installation) {
  if (!installation.triton_version.empty()) return {};
  return fail(ErrorCode::missing,
              installation.python.string() + " (from " +
                  installation.python_from +
                  ") has no Triton, which --target triton needs: run "
                  "tools/setup, or install the package triton there");
}

Result<void> check_nvrtc(const Installation& installation) {
  if (!installation.nvrtc.empty()) return {};
  return fail(ErrorCode::missing,
              installation.python.string() + " (from " +
                  installation.python_from +
                  ") finds no NVRTC, which --target cuda and gpu need: "
                  "install the package nvidia-cuda-nvrtc there, or the CUDA "
                  "toolkit; --target triton needs neither");
}

Result<void> check_compiler() {
  const fs::path found = find_compiler();
  if (!found.empty()) return check_shown(found);
  return fail(ErrorCode::missing,
              "no C++ compiler '" + compiler_command() +
                  "': install g++, or name one with the variable CXX");
}

std::string compiler_command() {
  const std::string named = variable("CXX");
  return named.empty() ? "g++" : named;
}

fs::path find_compiler() { return on_path(compiler_command()); }

std::string compiler_version() {
  constexpr std::int64_t wall_ms = 10'000;
  const fs::path found = find_compiler();
  if (found.empty()) return "";
  // It waits for the line that `ask` sends: to a process that is gone already
  // nothing can be sent.
  auto process = LineProcess::start(
      {{"/bin/sh", "-c", "read -r line; exec \"$0\" -dumpfullversion",
        found.string()},
       {},
       {}});
  if (!process) return "";
  const auto line = process->ask("", wall_ms);
  return line ? trimmed(*line) : "";
}

std::int64_t level3_bytes(const fs::path& cpus) {
  std::map<std::string, std::int64_t>
      caches;  // by the processors that share it
  std::error_code error;
  for (const auto& cpu : fs::directory_iterator(cpus, error)) {
    const fs::path cache = cpu.path() / "cache/index3";
    std::string level;
    std::string shared;
    std::string size;
    std::ifstream(cache / "level") >> level;
    std::ifstream(cache / "shared_cpu_list") >> shared;
    std::ifstream(cache / "size") >> size;
    if (level != "3" || size.empty()) continue;
    std::int64_t count = 0;
    const auto read =
        std::from_chars(size.data(), size.data() + size.size(), count);
    if (read.ec != std::errc() || count < 0 || count > (1 << 30)) continue;
    const std::string_view unit(read.ptr);
    if (unit == "K") caches[shared] = count << 10;
    if (unit == "M") caches[shared] = count << 20;
  }
  std::int64_t bytes = 0;
  for (const auto& [shared, size] : caches) bytes += size;
  return bytes;
}

Machine describe_machine() {
  Machine machine;
  machine.name = trimmed(processor_line("model name"));
  if (machine.name.empty()) machine.name = "unknown processor";
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  machine.cores = std::max(1, CPU_COUNT(&allowed));
  const std::string flags = processor_line("flags") + " ";
  machine.vector_bytes = flags.contains(" avx512f ") ? 64
                         : flags.contains(" avx2 ")  ? 32
                                                     : 16;
  if (const auto bytes = cache_bytes(1); bytes > 0) machine.l1_bytes = bytes;
  if (const auto bytes = cache_bytes(2); bytes > 0) machine.l2_bytes = bytes;
  const auto listed = level3_bytes("/sys/devices/system/cpu");
  const auto l3_bytes = listed > 0 ? listed : cache_bytes(3);
  if (l3_bytes > 0) machine.l3_bytes = l3_bytes;
  for (const char* set : kInstructionSets) {
    if (flags.contains(" " + std::string(set) + " ")) {
      machine.instruction_sets.emplace_back(set);
    }
  }
  if (is_sandbox_off()) {
    machine.unprotected.emplace_back(kNoSandbox);
    return machine;
  }
  for (const Protection& layer : probe_protections()) {
    (layer.on ? machine.protections : machine.unprotected)
        .push_back(layer.name);
  }
  return machine;
}

}  // namespace weft
