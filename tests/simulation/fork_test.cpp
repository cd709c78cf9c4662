// Forks of whole runs: each goes on to an end of its own, and replays.
#include "runtime/debug/fork.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "actors/roster.hpp"
#include "runtime/simulation/simulator.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

constexpr std::uint64_t kStep = 10;

SimulationOptions options_from(const SimulatedOrigin* recorded_run) {
  SimulationOptions options;
  options.make_role = &make_role;
  options.events_max = 20'000;
  options.recorded_run = recorded_run;
  return options;
}

/// A simulated run as a journal on disk.
Journal written(const Directory& directory, const SimulationEnd& end) {
  Journal journal =
      value(Journal::create(directory / "origin.db", Sync::normal));
  for (const auto& [hash, bytes] : end.blobs) value(journal.put_blob(bytes));
  std::vector<Envelope> events = end.journal;
  value(journal.append(events));
  return journal;
}

struct Forked {
  Result<ForkEnd> end;
  SimulatedOrigin recorded_run;
};

Forked forked(const Directory& directory, const Journal& origin,
              const ForkOrder& order) {
  const auto file = directory / "fork.db";
  for (const char* part : {"", "-wal", "-shm", "-lock"}) {
    fs::remove(file.string() + part);
  }
  Journal journal = value(Journal::create(file, Sync::normal));
  BlobStore blobs(journal);
  Forked forked{fork_journal(origin, journal, blobs, order, &make_role), {}};
  if (!forked.end) return forked;
  value(journal.read(1, [&](const Envelope& envelope) {
    forked.recorded_run.journal.push_back(envelope);
    return true;
  }));
  for (const std::string& hash : value(journal.blob_hashes())) {
    forked.recorded_run.blobs[hash] = value(journal.get_blob(hash));
  }
  return forked;
}

RunOptions options_of(const SimulationEnd& end) {
  const Envelope& first = end.journal.front();
  return std::get<RunStart>(*decode(first.type, first.body)).options;
}

TEST_CASE("a fork at each tenth event goes on to its end and replays") {
  for (const std::uint64_t seed : {3, 4}) {
    const SimulationEnd origin = simulate(seed, options_from(nullptr));
    REQUIRE_MESSAGE(origin.problem.empty(), origin.problem);
    const Directory directory;
    const Journal journal = written(directory, origin);
    for (std::uint64_t at = kStep; at <= origin.events; at += kStep) {
      CAPTURE(seed);
      CAPTURE(at);
      const Forked fork = forked(directory, journal, {.at = at});
      REQUIRE(fork.end.has_value());
      REQUIRE(fork.recorded_run.journal.size() == at);
      // It ends with a check of the invariants, and with a replay.
      const auto end = simulate(seed + at, options_from(&fork.recorded_run));
      CHECK_MESSAGE(end.problem.empty(), end.problem);
      CHECK(end.events >= at);
    }
  }
}

/// The first event that asks for the timing of a seed; 0: there is none.
std::uint64_t first_timing(const SimulationEnd& end) {
  for (const Envelope& envelope : end.journal) {
    if (envelope.type != TimeRequest::name) continue;
    const auto body =
        std::get<TimeRequest>(*decode(envelope.type, envelope.body));
    if (body.budget_ms == options_of(end).timing_ms) return envelope.seq;
  }
  return 0;
}

TEST_CASE("other settings go into what the roles had said, and replay") {
  std::uint64_t seed = 3;
  SimulationEnd origin = simulate(seed, options_from(nullptr));
  while (first_timing(origin) == 0) {
    REQUIRE(seed < 20);
    origin = simulate(++seed, options_from(nullptr));
  }
  const Directory directory;
  const Journal journal = written(directory, origin);
  ForkOrder order{.at = first_timing(origin) + 1};
  order.options = options_of(origin);
  order.options->timing_ms += 77;
  const Forked fork = forked(directory, journal, order);
  REQUIRE_MESSAGE(fork.end.has_value(), fork.end.error().message);
  CHECK(fork.end->words_changed > 0);
  const auto end = simulate(1, options_from(&fork.recorded_run));
  CHECK_MESSAGE(end.problem.empty(), end.problem);
  const auto last = fork.recorded_run.journal.front();
  CHECK(std::get<RunStart>(*decode(last.type, last.body)).options ==
        *order.options);
}

bool asked_beside_the_compiler(const SimulationEnd& end) {
  return std::ranges::any_of(end.journal, [](const Envelope& envelope) {
    return envelope.type == SeedsRequest::name &&
           envelope.dst != address::seeds("compiler");
  });
}

TEST_CASE("settings that lead elsewhere before the event are refused") {
  // All sources of seeds but one are gone: agents ask others than they asked.
  std::uint64_t seed = 0;
  SimulationEnd origin;
  do {
    REQUIRE(++seed < 100);
    origin = simulate(seed, options_from(nullptr));
  } while (!asked_beside_the_compiler(origin));
  const Directory directory;
  const Journal journal = written(directory, origin);
  ForkOrder order{.at = origin.events};
  order.options = options_of(origin);
  order.options->seeds = {"compiler"};
  const Forked fork = forked(directory, journal, order);
  REQUIRE(!fork.end.has_value());
  CHECK(fork.end.error().code == ErrorCode::wrong_input);
  CHECK(fork.end.error().message.contains("decides differently before"));
}

}  // namespace
}  // namespace weft
