// Whole runs in one thread under a seeded clock, with faked ports and injected
// faults: batches of different senders are journaled in any order, ports answer
// late, twice, wrongly or never, or have no time; what is stopped stops late;
// devices and nodes come and go; and the head dies and resumes. The same seed
// gives the same run. Invariants are checked after every event.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "messages/envelope.hpp"
#include "runtime/host/replay.hpp"

namespace weft {

/// Chances out of 1,000, for each reply of a port (crash, location: each
/// event).
struct Faults {
  int lost = 20;
  int doubled = 30;
  int failed = 30;
  int crash = 2;
  int location = 2;       ///< a location goes, or comes back
  int politely = 500;     ///< it goes, and hands back what it works on
  int full = 300;         ///< that is for want of room on its disk
  int cancel_late = 500;  ///< what is stopped answers when it likes
  int llm = 250;          ///< a call to a language model fails
};

/// By their names.
using SimulatedBlobs = std::map<std::string, std::string, std::less<>>;

/// What an earlier run, or a fork of one, left behind.
struct SimulatedOrigin {
  std::vector<Envelope> journal;
  SimulatedBlobs blobs;
};

struct SimulationOptions {
  Faults faults;
  Replay::MakeRole make_role;
  std::uint64_t events_max = 200'000;
  std::string target = "cpu";
  /// Beside the library and the compiler.
  std::vector<std::string> more_sources;
  /// Number of device classes; the head may lack any capability then. 0: the
  /// head judges, and nodes are copies of it.
  int classes = 0;
  /// The run goes on from here; nullptr: it begins.
  const SimulatedOrigin* recorded_run = nullptr;
};

struct SimulationEnd {
  std::string problem;  ///< empty: every invariant held
  std::uint64_t events = 0;
  int crashes = 0;
  int locations_lost = 0;
  int locations_left = 0;
  int cancels = 0;
  int devices = 0;  ///< of the head
  bool head_judges = true;
  int llm_calls = 0;
  int llm_failures = 0;
  int exit_code = -1;
  std::vector<Envelope> journal;
  SimulatedBlobs blobs;
};

/// One run of a made-up model that depends on the seed, like all else.
SimulationEnd simulate(std::uint64_t seed, const SimulationOptions& options);

}  // namespace weft
