// `weft tune`: values of one choice, each tried in a run of its own
// (docs/explanation/code-generation.md).
#pragma once

#include <string>

#include "tools/weft/commands.hpp"

namespace weft {

struct TuneFlags {
  RunFlags run;       ///< of every run; their folders are below `run.out`
  std::string sweep;  ///< "cuda.windows.rows_max=4,8,16"
};

/// A run for the default and for each value, one after the other, then a table.
/// The worst of their exit codes.
int tune_command(const CommonFlags& common, const TuneFlags& flags);

}  // namespace weft
