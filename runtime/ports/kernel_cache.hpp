// The run's folder of built kernels. A library's name says what it was built
// from, so a kernel is built once, and model_new.py's own loader, pointed to
// the folder by WEFT_BUILT_KERNELS, finds it there.
#pragma once

#include <filesystem>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "compiler/targets.hpp"
#include "messages/effects.hpp"
#include "messages/result.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/sandbox/sandbox.hpp"
#include "runtime/store/library.hpp"

namespace weft {

/// What builds here may use.
struct Workshop {
  BuildTools tools;
  /// What the sandbox must show so that tools.python works and finds
  /// the package weft, and its variables.
  std::vector<std::filesystem::path> readable;
  std::vector<std::pair<std::string, std::string>> environment;
  /// Where runs find again what others have built here; null: nowhere.
  const Library* kernel_library = nullptr;
  /// Of what builds for the processor, and for a GPU
  /// (runtime/machine/toolchain.hpp).
  std::string compiler_identity;
  std::string python_identity;
};
/// `kept` may be null.
Workshop make_workshop(const Installation& installation, const Machine& machine,
                       const Library* library = nullptr);

/// How one build goes.
struct BuildTerms {
  // A time limit is all that most callers have to say.
  BuildTerms(std::int64_t limit_ms) : wall_ms(limit_ms) {}  // NOLINT
  std::int64_t wall_ms;
  std::string arch;  ///< of the GPU that it is for; empty: the workshop's
  std::stop_token cancelled;  ///< kills it
};

class KernelCache {
 public:
  /// What is built lies in `folder`; builds run in scratch folders below
  /// `scratch`.
  KernelCache(std::filesystem::path folder, std::filesystem::path scratch,
              Workshop workshop);

  /// What a build gave.
  struct Built {
    std::filesystem::path file;  ///< empty: the compiler rejected it
    std::string log;             ///< what the compiler said
  };

  /// Builds `source` for the target in the sandbox unless it is there already,
  /// or among what is kept.
  /// An error means that the build could not be run, not that the source is
  /// bad.
  Result<Built> build(const Target& target, const std::string& source,
                      const BuildTerms& terms);
  /// The same, for the target of that name. wrong_input: there is none.
  Result<Built> build(const std::string& target, const std::string& source,
                      const BuildTerms& terms);

  /// Puts there what was built from that source elsewhere.
  Result<Built> take(const std::string& target, const std::string& source,
                     const std::string& arch, const std::string& artefact);

  /// Kills what is being built and refuses to build more: the run stops.
  void cancel() { stop_.request_stop(); }

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path scratch_for(const std::string& name);
  Result<Built> build_anew(const Target& target, const std::string& source,
                           const std::string& name, const BuildTerms& terms);
  std::string artefact_key(const Target& target, const std::string& name) const;
  SandboxRequest build_request(const Target& target,
                               const std::filesystem::path& scratch,
                               const BuildTerms& terms) const;
  const std::string& arch_of(const BuildTerms& terms) const;

  std::filesystem::path folder_;
  std::filesystem::path scratch_;
  Workshop workshop_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::uint64_t next_ = 0;
};

/// File name of what `source` builds into: for the targets whose composed
/// module builds its own kernels, the same rule as in their loader. What is
/// built for a GPU is another file for each `arch`.
std::string library_name(const Target& target, const std::string& source,
                         const std::string& arch);

}  // namespace weft
