// Runs a command that is not trusted: no network, read-only system, one
// writable scratch folder, bounded memory, processes, file size, CPU and wall
// time, an empty environment, and the whole process tree gone at the end.
// Which layers this machine allows is asked once
// (docs/explanation/security.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "messages/result.hpp"

namespace weft {

struct SandboxLimits {
  std::int64_t wall_ms = 60'000;  ///< not held by sandbox_prefix
  std::int64_t cpu_s = 120;       ///< of one process
  std::int64_t memory_bytes = std::int64_t{4} << 30;  ///< of the whole tree
  std::int64_t file_bytes = std::int64_t{1} << 30;    ///< of one file written
  int processes = 64;                                 ///< threads count too
  std::int64_t output_bytes = 1 << 20;  ///< of stdout and stderr each, kept
  std::int64_t scratch_bytes = std::int64_t{4} << 30;  ///< of all its files
  int niceness =
      0;  ///< above ours: what may wait for a core leaves it to others
};

struct SandboxRequest {
  std::vector<std::string> command;
  std::filesystem::path scratch;  ///< writable, the working folder
  std::vector<std::filesystem::path> readable;  ///< beyond the system's own
  std::vector<std::pair<std::string, std::string>>
      environment;  ///< beyond
                    ///< PATH, HOME, TMPDIR, LANG, USER and LOGNAME, which are
                    ///< always there
  SandboxLimits limits;
  bool gpu = false;  ///< shows NVIDIA's devices (docs/explanation/security.md)
  std::stop_token stop;  ///< kills it when asked to; not for sandbox_prefix
};

/// How it ended.
struct SandboxReport {
  enum class End { exited, signalled, timed_out, out_of_memory };
  End end = End::exited;
  int code = 0;  ///< exit code or signal number
  std::string out;
  std::string err;
  std::int64_t wall_ms = 0;
};

/// Blocks until the whole tree is gone. failed/missing: it could not be
/// started; how the command itself ended is in the report.
Result<SandboxReport> run_sandboxed(const SandboxRequest& request);

/// The words before the command that give the same sandbox to a long-lived
/// process that somebody else starts and feeds (stdin, stdout pass through;
/// descriptors 3 and up do not). It dies with its parent.
std::vector<std::string> sandbox_prefix(const SandboxRequest& request);

/// One layer of protection, for `weft doctor` and the run's first lines.
struct Protection {
  std::string name;  ///< "network namespace", "seccomp", …
  bool on = false;
  std::string remark;  ///< why not, and what to do
};
std::vector<Protection> probe_protections();

}  // namespace weft
