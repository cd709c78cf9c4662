#include <cstdio>

#include "actors/roster.hpp"
#include "runtime/simulation/simulator.hpp"
#include "tools/weft/commands.hpp"

namespace weft {
namespace {

struct SeedRange {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

Result<SeedRange> parse_range(const std::string& text) {
  SeedRange range;
  unsigned long long from = 0;
  unsigned long long to = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%llu..%llu%c", &from, &to, &rest) == 2 &&
      from <= to) {
    return SeedRange{from, to};
  }
  if (std::sscanf(text.c_str(), "%llu%c", &from, &rest) == 1) {
    return SeedRange{from, from};
  }
  return fail(
      ErrorCode::wrong_input,
      "--seeds takes A..B with A <= B, or one number, not '" + text + "'");
}

}  // namespace

int simulate_command(const CommonFlags& common, const SimulateFlags& flags) {
  const auto range = parse_range(flags.seeds);
  if (!range) return report_error(common, range.error());
  SimulationOptions options;
  options.make_role = &make_role;
  std::uint64_t events = 0;
  std::uint64_t crashes = 0;
  for (std::uint64_t seed = range->from;; ++seed) {
    const SimulationEnd end = simulate(seed, options);
    events += end.events;
    crashes += static_cast<std::uint64_t>(end.crashes);
    if (!end.problem.empty()) {
      return report_error(
          common, {ErrorCode::failed,
                   "seed " + std::to_string(seed) + ", event " +
                       std::to_string(end.events) + ": " + end.problem});
    }
    if (seed == range->to) break;
  }
  if (!common.quiet) {
    std::printf("%llu runs, %llu events, %llu crashes: every invariant held\n",
                static_cast<unsigned long long>(range->to - range->from + 1),
                static_cast<unsigned long long>(events),
                static_cast<unsigned long long>(crashes));
  }
  return 0;
}

}  // namespace weft
