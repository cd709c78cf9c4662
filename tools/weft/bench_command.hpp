// `weft bench`: a folder of problems, each as a run of its own
// (docs/how-to/kernelbench.md). What is done with them is the Python side's
// (weft.bench): this process becomes it.
#pragma once

#include <string>
#include <vector>

#include "tools/weft/commands.hpp"

namespace weft {

struct BenchFlags {
  std::filesystem::path folder;
  /// The same problems otherwise, to be reported beside them.
  std::optional<std::filesystem::path> beside;
  std::vector<int> levels;        ///< empty: all there are
  std::vector<std::string> only;  ///< patterns of file names; empty: all
  std::optional<std::filesystem::path> out;
  double limit_minutes = 0;  ///< of the whole; 0: none
  double problem_minutes = 10;
  int jobs = 0;  ///< problems at a time; 0: as the machine or the nodes allow
  bool no_autotune = false;  ///< torch.compile's max-autotune is left out
  bool rerun = false;
  bool rerun_failed = false;
  RunOptions options;
  ListenFlags listen;                  ///< nodes do all the work then
  std::vector<std::string> run_words;  ///< those flags of a run that were given
};

/// 0: every problem verified; 1: not all, or the limit came first; 2, 3 and
/// 130 as elsewhere. Returns only when the Python side cannot be started.
int bench_command(const CommonFlags& common, const BenchFlags& flags);

}  // namespace weft
