// What of weft and of its surroundings this machine has: where the Python side
// lies, which Python runs it, what that Python lacks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "messages/result.hpp"
#include "messages/run.hpp"

namespace weft {

struct Installation {
  std::filesystem::path python;  ///< the interpreter
  std::string python_from;       ///< "--python", "WEFT_PYTHON", …
  std::filesystem::path
      worker_path;  ///< the folder that holds the package weft
  std::string python_version;
  std::string torch_version;   ///< empty: this Python has no torch
  std::string triton_version;  ///< empty: it has none, as not every torch has
  /// NVIDIA's compiler for CUDA, as a library: which one. Empty: none.
  std::string nvrtc;
  /// Folders that a sandbox must show so that this Python works inside.
  std::vector<std::filesystem::path> python_roots;
  /// Whether its PyTorch came with Python's bytecode.
  bool has_bytecode = true;
  std::string torch_files;  ///< sizes and times of some: which PyTorch it is
  /// Where weft keeps that for it (runtime/machine/bytecode.hpp); empty:
  /// nowhere.
  std::filesystem::path bytecode;
};

/// The oldest PyTorch whose torch.export weft has been tried with.
inline constexpr const char* kTorchVersionMin = "2.6";

/// Looks for Python in this order: `flag`, the variable WEFT_PYTHON, the
/// installation's or the checkout's own environment, python3 on the PATH. The
/// first that is there is taken, even when it lacks torch. missing: none is,
/// or weft's Python side is not where it should be.
Result<Installation> find_installation(const std::optional<std::string>& flag);

/// What a sandbox must show so that weft's Python side works inside.
std::vector<std::filesystem::path> python_readable(
    const Installation& installation);

/// The variables that it needs. No process writes bytecode: not beside the
/// user's files, and not where another process would run it.
std::vector<std::pair<std::string, std::string>> python_environment(
    const Installation& installation);

/// missing, with what to do, when this Python cannot run weft's Python side.
Result<void> check_torch(const Installation& installation);

/// missing, with what to do, when this Python cannot build for the `triton`
/// target.
Result<void> check_triton(const Installation& installation);

/// missing, with what to install, when it cannot build for the `cuda` target.
Result<void> check_nvrtc(const Installation& installation);

/// missing, with what to install, when there is no C++ compiler.
Result<void> check_compiler();

/// The processor, its cores and caches, and the sandbox's layers; no GPU.
Machine describe_machine();

/// The bytes of all level 3 caches that Linux lists in `cpus`
/// (/sys/devices/system/cpu); 0: it lists none. In a virtual machine sysconf
/// tells the caches of the whole host (seen 2026-11: 320 MiB, of which the
/// guest's two cores share 32).
std::int64_t level3_bytes(const std::filesystem::path& cpus);

/// "g++", or the variable CXX.
std::string compiler_command();

/// That program's file; empty when it is not there.
std::filesystem::path find_compiler();

/// "12.2.0", as the C++ compiler says; empty: it does not.
std::string compiler_version();

}  // namespace weft
