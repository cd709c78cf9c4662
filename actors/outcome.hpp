// How a failure or a measurement is judged: the few thresholds that decide
// exit codes and winners, in one place.
#pragma once

#include <string_view>

#include "messages/run.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

/// Of a run whose module is verified, but some call to a language model was not
/// made because it could have exceeded the budget.
inline constexpr int kBudgetExitCode = 4;

/// How a subgraph's reason begins, or goes on, whose search the run's time cut
/// short.
inline constexpr std::string_view kSearchTimeOver =
    "the search's part of the budget";

/// 2 wrong input, 3 something missing on the machine, else 1.
int exit_code_of(const Failure& failure);

/// Both sides ran interleaved; noise is what the confidence interval of their
/// ratio says. A kernel must gain at least 3 % to be worth its place.
bool faster_than_eager(const Timing& timing);

/// Whether the subgraph's kernel may go into the module: it is faster than
/// eager, or right where nothing is timed.
bool has_won(const SubgraphDone& done);

/// Which of two kernels of one subgraph to take. Each was timed beside eager at
/// its own moment: a processor's ratio carries over from one moment to another,
/// its time does not; a device's events are steadier than eager's time, of
/// which launching is a part.
bool is_faster(const Timing& timing, const Timing& other);

/// How many times faster the one is than the other, by the same rule: 1.1 is
/// 10 % faster. By absolute times where one has no speedup over eager.
double gain_over(const Timing& timing, const Timing& other);

/// Whether the best kernel is timed otherwise than each was.
bool looks_longer(const RunOptions& options);

/// Time for the best seed, if it is timed again.
std::int64_t last_timing_ms(const RunOptions& options);

/// Beyond noise, and by more than 2 %.
bool slower_than_eager(const Timing& timing);

/// Whether a kernel keeps what is remembered of it. Both its time and its
/// speedup over eager must have got worse, beyond noise and by more than 5 %:
/// times drift with the machine's moments, speedups with the framework.
bool holds(const Timing& timing, const KnownKernel& known);

/// The kernel library's record of a timed kernel.
KnownKernel as_known(const SeedResult& result);

}  // namespace weft
