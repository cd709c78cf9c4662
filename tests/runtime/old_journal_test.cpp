// A run that the first weft wrote, before there were places: today's roles must
// decide in it as they did then. What the compiler makes of a graph may differ.
#include <set>

#include "actors/roster.hpp"
#include "runtime/host/replay.hpp"
#include "runtime/journal/read_only_blobs.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

/// Words that hold, or refer to, what a compiler or a report made. The kernel
/// library is asked by a subgraph's signature, which is the compiler's, too.
const std::set<std::string> kCompilersWords = {
    "SeedsReply",        "WriteFilesRequest", "Dispatch",    "OptimizeSubgraph",
    "Progress",          "CheckRequest",      "TimeRequest", "RunFinished",
    "FindKernelRequest", "KeepKernelRequest"};

TEST_CASE("a journal of the first vocabulary replays") {
  Directory directory;
  const fs::path file = directory / "journal.db";
  fs::copy_file(fs::path(WEFT_TEST_DATA) / "journal_of_vocabulary_1.db", file);
  const Journal journal = value(Journal::open_read_only(file));
  ReadOnlyBlobs blobs(journal);
  Replay replay(blobs, &make_role, Replay::ContentRule::recorded);
  std::uint64_t recalled = 0;
  std::uint64_t events = 0;
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    ++events;
    const bool fits = replay.feed(envelope);
    if (!fits && replay.divergence()) FAIL(to_string(*replay.divergence()));
    if (!fits) FAIL(replay.error()->message);
    if (replay.recalled() > recalled) {
      CHECK_MESSAGE(kCompilersWords.contains(envelope.type),
                    "event " << envelope.seq
                             << " is decided otherwise: " << envelope.type);
    }
    recalled = replay.recalled();
    return fits;
  });
  REQUIRE(read.has_value());
  CHECK(events > 150);
  CHECK(replay.finish());
  REQUIRE(replay.finished().has_value());
  CHECK(replay.finished()->exit_code == 0);
}

}  // namespace
}  // namespace weft
