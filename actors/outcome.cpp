#include "actors/outcome.hpp"

namespace weft {
namespace {

constexpr double gain_min = 1.03;
constexpr double loss_max = 1.05;

double ratio(const Times& other, const Times& candidate) {
  if (other.runs == 0 || candidate.runs == 0) return 0;
  if (candidate.median_us <= 0) return 0;
  return other.median_us / candidate.median_us;
}

}  // namespace

int exit_code_of(const Failure& failure) {
  if (failure.code == "wrong_input") return 2;
  if (failure.code == "missing") return 3;
  return 1;
}

bool faster_than_eager(const Timing& timing) {
  return speedup_over_eager(timing) >= gain_min &&
         timing.candidate.p10_us < timing.eager.p10_us;
}

bool slower_than_eager(const Timing& timing) {
  return timing.candidate.median_us > loss_max * timing.eager.median_us &&
         timing.candidate.p10_us > timing.eager.p10_us;
}

double speedup_over_eager(const Timing& timing) {
  return ratio(timing.eager, timing.candidate);
}

double speedup_over_compile(const Timing& timing) {
  return ratio(timing.compile, timing.candidate);
}

}  // namespace weft
