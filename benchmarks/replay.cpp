// How fast a journal is replayed: read, its chain verified, every role run
// again and what it says held against what it said. Without an argument: a
// large journal of roles that only pass messages on, made in the current
// folder. With one: the journal of a real run, the compiler's work included.
//
//     bench_replay [RUN/journal.db]
#include "runtime/host/replay.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "actors/roster.hpp"
#include "benchmarks/measurement_rounds.hpp"
#include "benchmarks/message_ping_pong.hpp"
#include "benchmarks/sqlite_baseline.hpp"
#include "runtime/host/caf_host.hpp"
#include "runtime/journal/read_only_blobs.hpp"

namespace {

using namespace weft;
using namespace weft::benchmark;
namespace fs = std::filesystem;

constexpr int kRounds = 7;
constexpr int kBalls = 2000;
constexpr std::uint64_t kHops = 49;

void play(const fs::path& file) {
  auto journal = Journal::create(file, Sync::normal);
  require(journal.has_value(), file.string() + ": cannot create");
  BlobStore blobs(*journal);
  Ports ports;
  HostOptions options;
  options.make_role = players(kBalls, kHops);
  const HostEnd end =
      host_run(*journal, blobs, ports, options, "hub", RunStart{}, {});
  require(end.kind == HostEnd::Kind::finished, end.error.message);
}

struct Replayed {
  std::size_t events = 0;
  double seconds = 0;
};

Replayed replay(const fs::path& file, const Replay::MakeRole& make) {
  Replayed done;
  done.seconds = seconds([&] {
    const auto journal = Journal::open_read_only(file);
    require(journal.has_value(), file.string() + ": cannot open");
    ReadOnlyBlobs blobs(*journal);
    Replay replay(blobs, make);
    const auto read = journal->read(1, [&](const Envelope& envelope) {
      ++done.events;
      return replay.feed(envelope);
    });
    require(read.has_value(), read ? "" : read.error().message);
    require(replay.finished() && replay.finish(), "the replay diverges");
  });
  return done;
}

void measure(const fs::path& file, const Replay::MakeRole& make) {
  std::vector<double> rates;
  std::size_t events = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Replayed done = replay(file, make);
    events = done.events;
    rates.push_back(static_cast<double>(events) / done.seconds);
  }
  std::printf("replay %6zu envelopes: %8.0f/s (%.0f to %.0f)\n", events,
              median(rates), std::ranges::min(rates), std::ranges::max(rates));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    measure(argv[1], &make_role);
    return 0;
  }
  const fs::path file = "bench_replay." + std::to_string(::getpid()) + ".db";
  play(file);
  measure(file, players(kBalls, kHops));
  remove_database(file);
}
