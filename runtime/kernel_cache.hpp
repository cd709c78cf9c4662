// The run's folder of built kernels. A library's name says what it was built
// from, so a kernel is built once, and model_new.py's own loader, pointed to
// the folder by WEFT_KERNEL_CACHE, finds it there.
#pragma once

#include <filesystem>
#include <mutex>
#include <stop_token>
#include <string>

#include "compiler/target.hpp"
#include "messages/effects.hpp"
#include "messages/result.hpp"

namespace weft {

class KernelCache {
 public:
  /// Libraries lie in `folder`; builds run in scratch folders below `scratch`.
  KernelCache(std::filesystem::path folder, std::filesystem::path scratch);

  /// What a build gave.
  struct Built {
    std::filesystem::path library;  ///< empty: the compiler rejected it
    std::string log;                ///< what the compiler said
  };

  /// Builds `source` for the target in the sandbox unless it is there already.
  /// An error means that the build could not be run, not that the source is
  /// bad.
  Result<Built> build(const std::string& target, const std::string& source,
                      std::int64_t wall_ms);

  /// Kills what is being built and refuses to build more: the run stops.
  void cancel() { stop_.request_stop(); }

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path scratch_for(const std::string& name);

  std::filesystem::path folder_;
  std::filesystem::path scratch_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::uint64_t next_ = 0;
};

/// File name of what `source` builds into: the same rule as in the loader that
/// compiler/compose.hpp embeds.
std::string library_name(const Target& target, const std::string& source);

}  // namespace weft
