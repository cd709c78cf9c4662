// A run's folder on disk: where its journal, kernels and report lie, and the
// scratch space that goes when the run ends.
#pragma once

#include <filesystem>
#include <string>

#include "messages/result.hpp"

namespace weft {

class RunDirectory {
 public:
  /// For a new run. wrong_input when a run is there already, or a link where
  /// weft writes; missing when the folder cannot be made.
  static Result<RunDirectory> create(const std::filesystem::path& folder);

  /// Of an earlier run: the folder or its journal.db. wrong_input: no run
  /// there, or a link where weft writes.
  static Result<RunDirectory> open(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path journal() const { return folder_ / "journal.db"; }
  std::filesystem::path llm_replies() const { return folder_ / "llm.db"; }
  std::filesystem::path builds() const { return folder_ / "build"; }
  std::filesystem::path logs() const { return folder_ / "logs"; }

 private:
  explicit RunDirectory(std::filesystem::path folder)
      : folder_(std::move(folder)) {}
  std::filesystem::path folder_;
};

/// Scratch space in memory (/dev/shm) where that has room, else in the run's
/// folder. Removed by the destructor; what a killed weft left is swept when the
/// next one starts.
class Scratch {
 public:
  static Result<Scratch> make(const RunDirectory& run);
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch();

  const std::filesystem::path& folder() const { return folder_; }

 private:
  Scratch(std::filesystem::path folder, int lock)
      : folder_(std::move(folder)), lock_(lock) {}
  std::filesystem::path folder_;
  int lock_ = -1;
};

/// "weft-runs/softmax-20260102-030405", below the current folder, not there
/// yet.
std::filesystem::path default_run_folder(const std::filesystem::path& problem);

}  // namespace weft
