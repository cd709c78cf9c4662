// How an oracle is started and asked (docs/reference/worker-protocol.md): one
// Python process that holds references and owns a sandboxed candidate.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "messages/result.hpp"
#include "runtime/machine/installation.hpp"
#include "runtime/sandbox/line_process.hpp"

namespace weft {

struct OracleOptions {
  std::filesystem::path scratch;  ///< the oracle's own, emptied at its start
  std::filesystem::path log;      ///< its standard error
  int threads = 1;                ///< of one kernel
  std::int64_t memory_bytes = std::int64_t{8} << 30;  ///< of a candidate
  int processes = 64;          ///< that a candidate may have, threads count too
  std::string device = "cpu";  ///< or "cuda:0": where candidates run
  /// What the candidate may read beyond the Python and weft's own side.
  std::vector<std::filesystem::path> readable;
  /// Of oracle and candidate, beyond what Python needs.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> words;  ///< further options of the oracle
  /// The problem's code runs in a sandbox, the oracle with it, which sees the
  /// folder of the problems beyond what candidates see.
  bool untrusted_problem = false;
  std::filesystem::path problems;
};

/// The command line of an oracle whose candidates run in the sandbox.
LineCommand oracle_command(const Installation& installation,
                           const OracleOptions& options);

/// An oracle's answer, and whether it can be asked again.
struct OracleAnswer {
  Result<nlohmann::json> reply;
  bool is_usable;  ///< false: it is gone, or it talks nonsense
};

/// Asks one request, which gets its `id` here. An error in the reply comes
/// back as an error here; it leaves the oracle usable. A request that is under
/// way cannot be taken back: once it is not wanted any more it has a few
/// seconds to end, since most do, and a new oracle takes longer to begin.
OracleAnswer ask_oracle(LineProcess& oracle, nlohmann::json request,
                        std::int64_t wall_ms,
                        const std::stop_token& unwanted = {});

}  // namespace weft
