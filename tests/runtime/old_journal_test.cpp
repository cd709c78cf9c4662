// Runs that earlier versions of weft recorded: today's roles must decide in
// them as those versions did. The code that the compiler makes of a graph may
// differ.
#include <map>
#include <set>
#include <string>

#include "actors/roster.hpp"
#include "runtime/host/replay.hpp"
#include "runtime/journal/read_only_blobs.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

/// Messages that hold, or refer to, what a compiler or a report made. The
/// kernel library is asked by a subgraph's signature, which is the compiler's,
/// too. A prompt shows kernels.
const std::set<std::string> kGeneratedContent = {
    "SeedsReply",        "WriteFilesRequest", "Dispatch",    "OptimizeSubgraph",
    "Progress",          "CheckRequest",      "TimeRequest", "RunFinished",
    "FindKernelRequest", "KeepKernelRequest", "LlmRequest"};

struct OldRun {
  const char* file;
  int vocabulary;
  std::uint64_t events;
  int exit_code = 0;
};

/// The first run was recorded before there were locations, the second one in
/// the simulator, with nodes and a language model, the third one by `weft run`,
/// the fourth one in the simulator, where the head's GPU dies: not yet a
/// NodeLost.
const OldRun kRuns[] = {
    {"journal_of_vocabulary_1.db", 1, 150},
    {"journal_of_vocabulary_2.db", 2, 186},
    {"journal_of_vocabulary_3.db", 3, 181},
    {"journal_of_vocabulary_5.db", 5, 250, 1},
};

/// A copy of a journal of tests/runtime/data: opening it creates files next to
/// it.
class OldJournal {
 public:
  explicit OldJournal(const char* name)
      : journal_(value(Journal::open_read_only(copy(name)))) {}
  const Journal& operator*() const { return journal_; }
  const Journal* operator->() const { return &journal_; }

 private:
  fs::path copy(const char* name) {
    fs::copy_file(fs::path(WEFT_TEST_DATA) / name, directory_ / "journal.db");
    return directory_ / "journal.db";
  }

  Directory directory_;
  Journal journal_;
};

TEST_CASE("journals of earlier vocabularies replay") {
  for (const OldRun& run : kRuns) {
    CAPTURE(run.file);
    const OldJournal journal(run.file);
    ReadOnlyBlobs blobs(*journal);
    Replay replay(blobs, &make_role, Replay::ContentRule::recorded);
    std::uint64_t recalled = 0;
    std::uint64_t events = 0;
    const auto read = journal->read(1, [&](const Envelope& envelope) {
      ++events;
      const bool fits = replay.feed(envelope);
      if (!fits && replay.divergence()) FAIL(to_string(*replay.divergence()));
      if (!fits) FAIL(replay.error()->message);
      if (replay.recalled() > recalled) {
        CHECK_MESSAGE(kGeneratedContent.contains(envelope.type),
                      "event " << envelope.seq
                               << " is decided otherwise: " << envelope.type);
      }
      recalled = replay.recalled();
      return fits;
    });
    REQUIRE(read.has_value());
    CHECK(events >= run.events);
    CHECK(replay.finish());
    REQUIRE(replay.finished().has_value());
    CHECK(replay.finished()->exit_code == run.exit_code);
  }
}

TEST_CASE("fields and words of an old journal are read by today's names") {
  std::map<std::string, int> found;
  for (const OldRun& run : kRuns) {
    CAPTURE(run.file);
    const OldJournal journal(run.file);
    const auto read = journal->read(1, [&](const Envelope& envelope) {
      const Message message = value(decode(envelope.type, envelope.body));
      if (const auto* m = std::get_if<RunStart>(&message)) {
        CHECK(m->vocabulary == run.vocabulary);
        CHECK(m->options.random_seed != 0);
      }
      if (const auto* m = std::get_if<LeaseGranted>(&message)) {
        found["location"] += !m->location.empty();
      }
      if (const auto* m = std::get_if<LeaseRequest>(&message)) {
        found["locations"] += !m->locations.empty();
      }
      if (const auto* m = std::get_if<SubgraphDone>(&message)) {
        found["correct"] += m->correct;
        CHECK(m->outcome != "lost");
      }
      if (const auto* m = std::get_if<CheckRequest>(&message)) {
        for (const std::string& rule : m->rules) {
          found["rules"] += rule == rule::kernelbench;
          CHECK(rule != "near-eager");
        }
      }
      if (const auto* m = std::get_if<CheckReply>(&message)) {
        const std::string& outcome = m->verdict.kernelbench.outcome;
        found["kernelbench"] += outcome == kernelbench_outcome::within;
        CHECK(outcome != "near");
        CHECK(outcome != "far");
      }
      return true;
    });
    REQUIRE(read.has_value());
  }
  for (const std::string name :
       {"location", "locations", "correct", "rules", "kernelbench"}) {
    CHECK_MESSAGE(found[name] > 0, name << " is in none of the journals");
  }
}

}  // namespace
}  // namespace weft
