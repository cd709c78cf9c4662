// Whole runs in one thread under a seeded clock, with faked ports and injected
// faults: batches of different senders are journaled in any order, ports answer
// late, twice, wrongly or never, and the head dies and resumes. The same seed
// gives the same run. Invariants are checked after every event.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/envelope.hpp"
#include "runtime/host/replay.hpp"

namespace weft {

/// Chances out of 1,000, for each reply of a port (crash: for each event).
struct Faults {
  int lost = 20;
  int doubled = 30;
  int failed = 30;
  int crash = 2;
};

struct SimulationOptions {
  Faults faults;
  Replay::MakeRole make_role;
  std::uint64_t events_max = 200'000;
};

struct SimulationEnd {
  std::string problem;  ///< empty: every invariant held
  std::uint64_t events = 0;
  int crashes = 0;
  int exit_code = -1;
  std::vector<Envelope> journal;
};

/// One run of a made-up model that depends on the seed, like all else.
SimulationEnd simulate(std::uint64_t seed, const SimulationOptions& options);

}  // namespace weft
