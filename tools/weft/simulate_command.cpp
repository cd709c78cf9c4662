#include <cstdio>

#include "actors/roster.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/simulation/simulator.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/commands.hpp"

namespace weft {
namespace {

struct RandomSeeds {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

Result<RandomSeeds> parse_range(const std::string& text) {
  RandomSeeds range;
  unsigned long long from = 0;
  unsigned long long to = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%llu..%llu%c", &from, &to, &rest) == 2 &&
      from <= to) {
    return RandomSeeds{from, to};
  }
  if (std::sscanf(text.c_str(), "%llu%c", &from, &rest) == 1) {
    return RandomSeeds{from, from};
  }
  return fail(ErrorCode::wrong_input,
              "--random-seeds takes A..B with A <= B, or one number, not '" +
                  text + "'");
}

/// A simulated run as a run directory, for whatever reads journals.
Result<void> keep(const SimulationEnd& end, const std::filesystem::path& out) {
  const auto run = RunDirectory::create(out);
  if (!run) return std::unexpected(run.error());
  auto journal = Journal::create(run->journal(), Sync::normal);
  if (!journal) return std::unexpected(journal.error());
  for (const auto& [hash, bytes] : end.blobs) {
    const auto put = journal->put_blob(bytes);
    if (!put) return std::unexpected(put.error());
  }
  std::vector<Envelope> events = end.journal;
  return journal->append(events);
}

}  // namespace

int simulate_command(const CommonFlags& common, const SimulateFlags& flags) {
  const auto range = parse_range(flags.random_seeds);
  if (!range) return report_error(common, range.error());
  if (flags.out && range->from != range->to) {
    return report_error(
        common, {ErrorCode::wrong_input,
                 "--out keeps one run: name one seed, --random-seeds N"});
  }
  SimulationOptions options;
  options.make_role = &make_role;
  std::uint64_t events = 0;
  std::uint64_t crashes = 0;
  for (std::uint64_t seed = range->from;; ++seed) {
    const SimulationEnd end = simulate(seed, options);
    events += end.events;
    crashes += static_cast<std::uint64_t>(end.crashes);
    if (flags.out) {
      const auto stored = keep(end, *flags.out);
      if (!stored) return report_error(common, stored.error());
    }
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
