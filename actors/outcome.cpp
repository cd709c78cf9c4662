#include "actors/outcome.hpp"

#include <algorithm>

#include "actors/best_known.hpp"

namespace weft {
namespace {

constexpr double kGainMin = 1.03;
/// Two processes with the same code may lie as far apart where many are timed
/// at once (H200, up to 2026-11-25).
constexpr double kLossMin = 0.95;
/// A module that loses more is timed once more; and then the framework's own
/// forward is as fast at least.
constexpr double kModuleLossMin = 0.98;

}  // namespace

int exit_code_of(const Failure& failure) {
  if (failure.code == "wrong_input") return 2;
  if (failure.code == "missing") return 3;
  return 1;
}

bool faster_than_eager(const Timing& timing) {
  return timing.over_eager.low > 1 && timing.over_eager.ratio >= kGainMin;
}

bool has_won(const SubgraphDone& done) {
  return done.outcome == "won" || done.outcome == "proven";
}

bool is_faster(const Timing& timing, const Timing& other) {
  const bool by_events = timing.floor_us > 0 && other.floor_us > 0;
  return by_events ? timing.candidate.median_us < other.candidate.median_us
                   : timing.over_eager.ratio > other.over_eager.ratio;
}

double gain_over(const Timing& timing, const Timing& other) {
  const bool by_events = timing.floor_us > 0 && other.floor_us > 0;
  const bool has_ratios =
      timing.over_eager.ratio > 0 && other.over_eager.ratio > 0;
  if (by_events || !has_ratios) {
    return other.candidate.median_us /
           std::max(timing.candidate.median_us, 1e-9);
  }
  return timing.over_eager.ratio / other.over_eager.ratio;
}

std::int64_t last_timing_ms(const RunOptions& options) {
  return options.final_timing_ms > 0 ? options.final_timing_ms
                                     : options.timing_ms;
}

bool looks_longer(const RunOptions& options) {
  return options.compile_baseline ||
         options.final_timing_ms > options.timing_ms;
}

bool slower_than_eager(const Timing& timing) {
  return timing.over_eager.high < 1 && timing.over_eager.ratio < kModuleLossMin;
}

bool is_loss(const RunStart& run, const Timing& timing, bool was_slower) {
  const double ratio = timing.over_eager.ratio;
  const bool is_confirmed =
      delivers_best(run) && was_slower && ratio > 0 && ratio < kModuleLossMin;
  return is_confirmed || slower_than_eager(timing);
}

bool holds(const Timing& timing, const KnownKernel& known) {
  const bool is_slower =
      timing.candidate.p10_us > known.candidate.p90_us &&
      kLossMin * timing.candidate.median_us > known.candidate.median_us;
  const bool gains_less =
      timing.over_eager.high < known.over_eager.low &&
      timing.over_eager.ratio < kLossMin * known.over_eager.ratio;
  return !is_slower || !gains_less;
}

KnownKernel as_known(const SeedResult& result) {
  const Timing& timing = result.timing;
  KnownKernel known;
  known.source = result.seed.source;
  known.target = result.seed.target;
  known.variant = result.seed.variant;
  known.origin = result.seed.origin;
  known.candidate = timing.candidate;
  known.over_eager = timing.over_eager;
  known.over_compile = timing.over_compile;
  if (timing.candidate.median_us > 0) {
    known.floor_share = timing.floor_us / timing.candidate.median_us;
  }
  return known;
}

}  // namespace weft
