// An agent whose run has a kernel library.
#include "actors/subgraph_agent.hpp"
#include "compiler/graph/graph.hpp"
#include "tests/actors/run_fixture.hpp"

using namespace weft;

namespace {

Seed compiled(const std::string& id) {
  return {id, "cpu", "compiler", id, "text of " + id};
}

SeedResult timed(const Seed& seed, double ours_us, double eager_us = 100) {
  SeedResult result;
  result.seed = seed;
  result.built = true;
  result.verdict.correct = true;
  result.verdict.kind = "correct";
  result.timed = true;
  result.timing.candidate = {ours_us, ours_us * 0.9, ours_us * 1.1, 9};
  const double ratio = eager_us / ours_us;
  result.timing.over_eager = {ratio, 0.95 * ratio, 1.05 * ratio};
  return result;
}

/// What the library says of a kernel that once took 50 of eager's 100 µs, and
/// had outdone "a" and "b".
KnownKernel remembered() {
  KnownKernel known;
  known.source = "its text";
  known.target = "cpu";
  known.variant = "vec16";
  known.origin = "compiler";
  known.candidate = {50, 45, 55, 9};
  known.over_eager = {2, 1.9, 2.1};
  known.superseded = {"text of a", "text of b"};
  return known;
}

const Seed kept = {"library-0", "cpu", "library", "vec16", "its text"};

struct LibraryAgent : RunFixture<SubgraphAgent> {
  LibraryAgent() {
    OptimizeSubgraph work;
    work.subgraph = "sg";
    work.options.seeds = {"library", "compiler"};
    say(address::dispatcher, work);
  }
  std::vector<Outgoing> answered_by_library(const KnownKernel& known) {
    SeedsReply reply{"sg", "library", {}, {}, known};
    if (!known.source.empty()) reply.seeds.push_back(kept);
    return say("seeds/library", reply);
  }
  std::vector<Outgoing> compiler_says(const std::vector<std::string>& ids) {
    SeedsReply reply{"sg", "compiler", {}, {}, {}};
    for (const auto& id : ids) reply.seeds.push_back(compiled(id));
    return say("seeds/compiler", reply);
  }
  std::vector<Outgoing> result(const SeedResult& r) {
    return say("worker/sg." + r.seed.id, r);
  }
  /// The verdict, once the library has answered what it was told last.
  SubgraphDone done(const std::vector<Outgoing>& sent) {
    answered = single<KeepKernelRequest>(sent);
    CHECK(only<SubgraphDone>(sent).empty());
    return single<SubgraphDone>(
        say(address::library, KeepKernelReply{answered.effect, {}}));
  }
  KeepKernelRequest answered;
};

}  // namespace

TEST_CASE("the library's kernel is verified alone, and at once thoroughly") {
  LibraryAgent agent;
  CHECK(only<VerifySeed>(agent.compiler_says({"a"})).empty());
  const auto asked =
      single<VerifySeed>(agent.answered_by_library(remembered()));
  CHECK(asked.seed == kept);
  CHECK(asked.thorough);
}

TEST_CASE("a kernel that holds what is remembered ends the search") {
  LibraryAgent agent;
  agent.answered_by_library(remembered());
  agent.compiler_says({"a", "b"});
  const auto sent = agent.result(timed(kept, 51));
  CHECK(only<VerifySeed>(sent).empty());
  CHECK(only<TimeSeed>(sent).empty());
  const auto done = agent.done(sent);
  CHECK(done.outcome == "won");
  CHECK(done.best.seed.origin == "library");
  CHECK(done.seeds == 1);
  CHECK(agent.answered.judged == "its text");
  CHECK(agent.answered.kernel.source == "its text");
  CHECK(agent.answered.kernel.origin == "compiler");
  CHECK(agent.answered.kernel.candidate.median_us == 51);
  CHECK(agent.answered.kernel.superseded == remembered().superseded);
}

TEST_CASE("the order of the sources' answers does not matter") {
  LibraryAgent agent;
  agent.answered_by_library(remembered());
  agent.result(timed(kept, 51));
  CHECK(agent.done(agent.compiler_says({"a", "b"})).outcome == "won");
}

TEST_CASE("a kernel that was never held against this one is tried") {
  LibraryAgent agent;
  agent.answered_by_library(remembered());
  agent.compiler_says({"a", "new"});
  const auto asked = single<VerifySeed>(agent.result(timed(kept, 51)));
  CHECK(asked.seed.id == "new");
  CHECK_FALSE(asked.thorough);
  // It is not better: the library's own was timed as the best one is, and wins.
  const auto done = agent.done(agent.result(timed(compiled("new"), 80)));
  CHECK(done.best.seed.id == "library-0");
  CHECK(agent.answered.kernel.superseded ==
        std::vector<std::string>{"text of a", "text of b", "text of new"});
}

TEST_CASE("a kernel that got slower is searched beside, and may be outdone") {
  LibraryAgent agent;
  agent.answered_by_library(remembered());
  agent.compiler_says({"a", "b"});
  CHECK(only<VerifySeed>(agent.result(timed(kept, 75))).size() == 2);
  agent.result(timed(compiled("a"), 60));
  const auto again = agent.result(timed(compiled("b"), 90));
  CHECK(only<TimeSeed>(again).at(0).first == "worker/sg.a");
  const auto done = agent.done(agent.result(timed(compiled("a"), 61)));
  CHECK(done.best.seed.id == "a");
  CHECK(agent.answered.judged == "its text");
  CHECK(agent.answered.kernel.source == "text of a");
  CHECK(agent.answered.kernel.superseded ==
        std::vector<std::string>{"its text", "text of b"});
}

TEST_CASE("a slower machine is no reason to search, nor a faster framework") {
  LibraryAgent slow;
  slow.answered_by_library(remembered());
  slow.compiler_says({"a"});
  CHECK(slow.done(slow.result(timed(kept, 80, 160))).outcome == "won");
  LibraryAgent fast;
  fast.answered_by_library(remembered());
  fast.compiler_says({"a"});
  CHECK(fast.done(fast.result(timed(kept, 50, 60))).outcome == "won");
}

TEST_CASE("a wrong kernel goes, its text is not tried again, others are") {
  LibraryAgent agent;
  KnownKernel known = remembered();
  known.source = "text of b";
  SeedsReply reply{"sg", "library", {kept}, {}, known};
  reply.seeds[0].source = "text of b";
  agent.say("seeds/library", reply);
  agent.compiler_says({"a", "b"});
  SeedResult wrong = timed(reply.seeds[0], 1);
  wrong.verdict.correct = false;
  wrong.verdict.kind = "wrong";
  wrong.timed = false;
  CHECK(single<VerifySeed>(agent.result(wrong)).seed.id == "a");
  agent.result(timed(compiled("a"), 50));
  CHECK(agent.done(agent.result(timed(compiled("a"), 50))).outcome == "won");
  CHECK(agent.answered.judged == "text of b");
  CHECK(agent.answered.kernel.source == "text of a");
}

TEST_CASE("a right text that is kept for a wrong target is tried for its own") {
  LibraryAgent agent;
  KnownKernel known = remembered();
  known.target = "no target";
  SeedsReply reply{"sg", "library", {kept}, {}, known};
  reply.seeds[0].target = known.target;
  reply.seeds[0].source = known.source = "text of a";
  agent.say("seeds/library", reply);
  agent.compiler_says({"a"});
  SeedResult wrong;
  wrong.seed = reply.seeds[0];
  wrong.verdict.kind = "not_built";
  CHECK(single<VerifySeed>(agent.result(wrong)).seed == compiled("a"));
}

TEST_CASE("a wrong kernel goes even when nothing else is right") {
  LibraryAgent agent;
  agent.answered_by_library(remembered());
  agent.compiler_says({});
  SeedResult wrong = timed(kept, 1);
  wrong.verdict.correct = false;
  CHECK(agent.done(agent.result(wrong)).outcome == "wrong");
  CHECK(agent.answered.judged == "its text");
  CHECK(agent.answered.kernel.source.empty());
}

TEST_CASE("a kernel that could not be verified stays where it is") {
  LibraryAgent agent;
  agent.answered_by_library(remembered());
  agent.compiler_says({"a"});
  SeedResult locations_lost;
  locations_lost.seed = kept;
  locations_lost.failure = {"failed", "the oracle died"};
  CHECK(only<VerifySeed>(agent.result(locations_lost)).size() == 1);
  agent.result(timed(compiled("a"), 50));
  agent.done(agent.result(timed(compiled("a"), 50)));
  CHECK(agent.answered.judged.empty());
  CHECK(agent.answered.kernel.source == "text of a");
}

TEST_CASE(
    "with nothing in the library the search is as ever, and its best is "
    "kept") {
  LibraryAgent agent;
  agent.answered_by_library({});
  CHECK(only<VerifySeed>(agent.compiler_says({"a", "b"})).size() == 2);
  agent.result(timed(compiled("a"), 50));
  agent.result(timed(compiled("b"), 60));
  CHECK(agent.done(agent.result(timed(compiled("a"), 50))).outcome == "won");
  CHECK(agent.answered.judged.empty());
  CHECK(agent.answered.kernel.superseded ==
        std::vector<std::string>{"text of b"});
}

TEST_CASE("a library that failed is not told anything") {
  LibraryAgent agent;
  agent.say("seeds/library",
            SeedsReply{"sg", "library", {}, {"failed", "damaged"}, {}});
  agent.compiler_says({"a"});
  agent.result(timed(compiled("a"), 50));
  const auto sent = agent.result(timed(compiled("a"), 50));
  CHECK(only<KeepKernelRequest>(sent).empty());
  CHECK(single<SubgraphDone>(sent).outcome == "won");
}

TEST_CASE("a library that cannot be written is a note, not a verdict") {
  LibraryAgent agent;
  agent.answered_by_library({});
  agent.compiler_says({"a"});
  agent.result(timed(compiled("a"), 50));
  const auto answer =
      single<KeepKernelRequest>(agent.result(timed(compiled("a"), 50)));
  const auto sent =
      agent.say(address::library,
                KeepKernelReply{answer.effect, {"failed", "read-only"}});
  CHECK(only<Progress>(sent).at(0).second.text.contains("read-only"));
  CHECK(single<SubgraphDone>(sent).outcome == "won");
}

TEST_CASE("an answer of the library that never comes keeps nobody waiting") {
  LibraryAgent agent;
  agent.answered_by_library({});
  agent.compiler_says({"a"});
  agent.result(timed(compiled("a"), 50));
  const auto answer =
      single<KeepKernelRequest>(agent.result(timed(compiled("a"), 50)));
  const auto sent = agent.say(address::broker, LeaseExpired{answer.effect});
  CHECK(single<SubgraphDone>(sent).outcome == "won");
}

TEST_CASE("what won elsewhere is in the prompt, and how a model won is kept") {
  RunFixture<SubgraphAgent> agent;
  OptimizeSubgraph work;
  work.subgraph = "sg";
  work.graph = agent.blobs.put(graph_to_json(two_piece_graph()));
  work.options.seeds = {"library", "compiler", "llm"};
  work.options.llm.edition = kPatternsEdition;
  work.options.llm.rounds = 0;
  work.options.compile_baseline = false;
  agent.say(address::dispatcher, work);
  SeedsReply found{"sg", "library", {}, {}, {}};
  found.patterns.emplace_back().type = "mm+tanh";
  agent.say("seeds/library", found);
  agent.say("seeds/compiler",
            SeedsReply{"sg", "compiler", {compiled("a")}, {}});
  const auto asked =
      single<RefineRequest>(agent.say("worker/sg.a", timed(compiled("a"), 50)));
  CHECK(asked.patterns == found.patterns);
  const Seed written{"llm-0", "python", "llm", "first proposal",
                     agent.blobs.put("a kernel\n")};
  agent.say("seeds/llm", SeedsReply{"sg", "llm", {written}, {}});
  agent.say("worker/sg.llm-0", timed(written, 20));
  const auto kept = single<KeepKernelRequest>(
      agent.say("worker/sg.llm-0", timed(written, 20)));
  CHECK(kept.kernel.origin == "llm");
  CHECK(kept.pattern.is_whole);
  CHECK(kept.pattern.over_others == doctest::Approx(2.5));
}
