// How long the stages of earlier runs took, of runs like this one: what a
// person is told of the time left rests on it. Read from the journals of the
// run directories beside this run's; nothing else is kept for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <vector>

#include "messages/run.hpp"
#include "runtime/progress/stages.hpp"

namespace weft {

struct EarlierRun {
  bool is_same_problem = false;
  int subgraphs = 0;
  std::array<std::int64_t, kStages> length_us{};
};

/// Whether times of one tell something of the other's: target, machine, and
/// all settings that decide how much is tried and timed. The problem may be
/// another one.
bool is_like(const RunStart& run_start, const RunStart& other);

/// Runs beside `run` that went through all stages, the newest first: 16 at
/// most, out of the 64 newest, none whose journal is above 64 MiB. Runs of the
/// same problem first. What cannot be read is passed over.
std::vector<EarlierRun> runs_like(const RunStart& start,
                                  const std::filesystem::path& run,
                                  std::stop_token stop);

/// What a stage takes, by the medians of runs of the same problem; where there
/// are none, by those of the others, the kernels' in proportion to the number
/// of subgraphs. nullopt: nothing is known.
std::optional<std::int64_t> expected_us(const std::vector<EarlierRun>& runs,
                                        Stage stage, int subgraphs);

}  // namespace weft
