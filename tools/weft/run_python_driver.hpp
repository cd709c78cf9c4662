// Runs of weft that belong together, and one ModelNew of what they found:
// `weft run --train` (a run for each pass) and `--mode both` (one for each
// mode). What is done with them is the Python side's.
#pragma once

#include "tools/weft/commands.hpp"

namespace weft {

constexpr const char* kTrainDriver = "weft.training.training_run";
constexpr const char* kModesDriver = "weft.modes.both_modes_run";
/// RunOptions::mode as it is given, and never in a run's own options.
constexpr const char* kBothModes = "both";

/// Exit codes as of `weft run`. Returns only when the driver, a module of the
/// Python side, cannot be started.
int run_python_driver(const CommonFlags& common, const RunFlags& flags,
                      const char* driver);

/// wrong_input: these options are of several runs where one is wanted.
Result<void> check_one_mode(const RunOptions& options);

}  // namespace weft
