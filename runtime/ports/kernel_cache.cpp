#include "runtime/ports/kernel_cache.hpp"

#include <memory>
#include <system_error>

#include "compiler/targets.hpp"
#include "runtime/machine/either_stop.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/machine/toolchain.hpp"
#include "runtime/sandbox/gpu_sandbox.hpp"
#include "runtime/store/sha256.hpp"
#include "runtime/store/untrusted_files.hpp"

namespace weft {
namespace {

constexpr int kBuildNiceness = 5;
/// The largest that was seen, of many template instances, had 40 MB.
constexpr std::int64_t kBuiltBytesMax = std::int64_t{256} << 20;

namespace fs = std::filesystem;

std::string how_it_ended(const SandboxReport& report) {
  switch (report.end) {
    case SandboxReport::End::timed_out:
      return "the compiler did not end within its time limit";
    case SandboxReport::End::out_of_memory:
      return "the compiler used more memory than it may";
    case SandboxReport::End::signalled:
      return "the compiler was killed by signal " + std::to_string(report.code);
    case SandboxReport::End::exited:
      return "the compiler said no";
  }
  return "";
}

}  // namespace

std::string library_name(const Target& target, const std::string& source,
                         const std::string& arch) {
  std::string key =
      target.loader.known_by ? target.loader.known_by(source) : source;
  if (target.build_flags != nullptr) {
    for (const std::string& flag : target.build_flags()) key += '\0' + flag;
  }
  if (target.on_gpu) key += '\0' + (arch.empty() ? "no GPU" : arch);
  const fs::path suffix = fs::path(target.built_file).extension();
  return content_hash(key).substr(0, 32) + suffix.string();
}

Workshop make_workshop(const Installation& installation, const Machine& machine,
                       const Library* library) {
  Workshop workshop;
  workshop.tools.cxx = compiler_command();
  workshop.tools.python = installation.python.string();
  if (!machine.gpus.empty()) workshop.tools.arch = machine.gpus.front().arch;
  workshop.readable = python_readable(installation);
  workshop.environment = python_environment(installation);
  if (library && library->is_there()) {
    workshop.kernel_library = library;
    workshop.compiler_identity = compiler_identity();
    workshop.python_identity = python_identity(installation);
  }
  return workshop;
}

KernelCache::KernelCache(fs::path folder, fs::path scratch, Workshop workshop)
    : folder_(std::move(folder)),
      scratch_(std::move(scratch)),
      workshop_(std::move(workshop)) {
  // The sandbox shows this folder to candidates, even where the model has no
  // kernel to build. Where it can't be made, the first build says why.
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
}

Result<KernelCache::Built> KernelCache::build(const std::string& target_name,
                                              const std::string& source,
                                              const BuildTerms& terms) {
  const Target* target = find_target(target_name);
  if (!target) {
    return fail(ErrorCode::wrong_input,
                "there is no target '" + target_name + "' to build for");
  }
  return build(*target, source, terms);
}

Result<KernelCache::Built> KernelCache::build(const Target& target,
                                              const std::string& source,
                                              const BuildTerms& terms) {
  const std::string name = library_name(target, source, arch_of(terms));
  const fs::path file = folder_ / name;
  if (fs::exists(file)) return Built{file, ""};
  if (workshop_.kernel_library) {
    const auto result =
        workshop_.kernel_library->find_artefact(artefact_key(target, name));
    if (result && *result && write_file_whole(file, **result)) {
      return Built{file, ""};
    }
  }
  return build_anew(target, source, name, terms);
}

const std::string& KernelCache::arch_of(const BuildTerms& terms) const {
  return terms.arch.empty() ? workshop_.tools.arch : terms.arch;
}

Result<KernelCache::Built> KernelCache::take(const std::string& target_name,
                                             const std::string& source,
                                             const std::string& arch,
                                             const std::string& artefact) {
  const Target* target = find_target(target_name);
  if (!target) {
    return fail(ErrorCode::wrong_input,
                "there is no target '" + target_name + "' to take kernels of");
  }
  BuildTerms terms(0);
  terms.arch = arch;
  const fs::path file = folder_ / library_name(*target, source, arch_of(terms));
  if (fs::exists(file)) return Built{file, ""};
  if (const auto done = write_file_whole(file, artefact); !done) {
    return std::unexpected(done.error());
  }
  return Built{file, ""};
}

/// Whoever builds: another compiler's work is another file.
std::string KernelCache::artefact_key(const Target& target,
                                      const std::string& name) const {
  return "built " + name + " by " +
         (target.on_gpu ? workshop_.python_identity
                        : workshop_.compiler_identity);
}

Result<KernelCache::Built> KernelCache::build_anew(const Target& target,
                                                   const std::string& source,
                                                   const std::string& name,
                                                   const BuildTerms& terms) {
  std::optional<std::string> facts;
  if (target.facts) {
    auto answer = target.facts(source);
    if (!answer) return Built{{}, answer.error().message};
    facts = std::move(*answer);
  }
  const fs::path file = folder_ / name;
  const fs::path scratch = scratch_for(name);
  // However it ends: what is left where the disk is full keeps it full.
  const std::shared_ptr<void> sweeper(
      nullptr, [&](void*) { (void)remove_tree(scratch); });
  if (const auto done = write_file_whole(scratch / target.source_file, source);
      !done) {
    return std::unexpected(done.error());
  }
  if (facts) {
    const auto done = write_file_whole(scratch / target.facts_file, *facts);
    if (!done) return std::unexpected(done.error());
  }
  SandboxRequest request = build_request(target, scratch, terms);
  const EitherStop stop(stop_.get_token(), terms.cancelled);
  request.stop = stop.token();
  const auto report = run_sandboxed(request);
  if (!report) return std::unexpected(report.error());
  Built built{{}, report->err};
  if (report->end == SandboxReport::End::exited && report->code == 0) {
    const auto bytes =
        read_file_beneath(scratch, target.built_file, kBuiltBytesMax);
    if (!bytes) {
      built.log = bytes.error().message + "\n" + built.log;
      return built;
    }
    const auto written = write_file_whole(file, *bytes);
    if (!written) return std::unexpected(written.error());
    built.file = file;
    if (workshop_.kernel_library) {
      // Else it is built again: no reason to stop.
      [[maybe_unused]] const auto shared =
          workshop_.kernel_library->store_artefact(artefact_key(target, name),
                                                   *bytes);
    }
  } else {
    built.log = how_it_ended(*report) + "\n" + built.log;
  }
  return built;
}

SandboxRequest KernelCache::build_request(const Target& target,
                                          const fs::path& scratch,
                                          const BuildTerms& terms) const {
  SandboxRequest request;
  BuildTools tools = workshop_.tools;
  tools.arch = arch_of(terms);
  request.command = target.build_command(tools);
  request.scratch = scratch;
  request.limits.wall_ms = terms.wall_ms;
  // Calls that are being timed go first: many builds run beside them.
  request.limits.niceness = kBuildNiceness;
  if (!target.on_gpu) return request;
  request.readable = workshop_.readable;
  request.environment = workshop_.environment;
  if (target.build_needs_gpu && !tools.arch.empty()) show_gpu(request);
  // One thread: builds run side by side, one a core.
  request.environment.emplace_back("OMP_NUM_THREADS", "1");
  request.environment.emplace_back("TRITON_CACHE_DIR",
                                   (scratch / "triton-cache").string());
  return request;
}

fs::path KernelCache::scratch_for(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return scratch_ /
         ("build-" + name.substr(0, 12) + "-" + std::to_string(next_++));
}

}  // namespace weft
