// `weft eval`: the oracle's verdict on candidates from anywhere
// (docs/how-to/judge-a-kernel.md).
#pragma once

#include <optional>
#include <vector>

#include "tools/weft/commands.hpp"

namespace weft {

struct EvalFlags {
  std::filesystem::path reference;
  std::vector<std::filesystem::path> candidates;
  std::string target = "auto";          ///< one of target_names()
  int device = 0;                       ///< which GPU
  std::string precision = "framework";  ///< framework, strict or tf32
  std::string mode = "as-is";           ///< as-is, eval or train
  bool no_timing = false;
  bool compile_baseline = true;  ///< time torch.compile too
  std::int64_t call_ms = 60'000;
  std::int64_t timing_ms = 4'000;
  std::int64_t memory_bytes = std::int64_t{8} << 30;
  bool untrusted_problem = false;  ///< the reference runs in a sandbox only
  /// None: one that no candidate can know.
  std::optional<std::uint64_t> random_seed;
};

/// What the oracle found of one candidate, for who does not print it.
struct Judgement {
  bool accepted = false;
  std::string reason;
};
/// Of the first candidate. failed: the oracle broke.
Result<Judgement> judge(const CommonFlags& common, EvalFlags flags);

/// 0 if all candidates are accepted, 1 if one is rejected; 2 and 3 as
/// elsewhere. The highest of several candidates counts.
int eval_command(const CommonFlags& common, EvalFlags flags);

}  // namespace weft
