#include "actors/subgraph_agent.hpp"

#include "tests/actors/role_fixture.hpp"

using namespace weft;

namespace {

Seed seed(const std::string& id) { return {id, "cpu", "compiler", id, "src"}; }

SeedResult correct_result(const std::string& id, double ours_us,
                          double eager_us) {
  SeedResult result;
  result.seed = seed(id);
  result.built = true;
  result.verdict.correct = true;
  result.timed = true;
  result.timing.candidate = {ours_us, ours_us * 0.9, ours_us * 1.1, 9};
  result.timing.eager = {eager_us, eager_us * 0.9, eager_us * 1.1, 9};
  const double ratio = eager_us / ours_us;
  result.timing.over_eager = {ratio, 0.95 * ratio, 1.05 * ratio};
  return result;
}

SeedResult wrong(const std::string& id) {
  SeedResult result;
  result.seed = seed(id);
  result.built = true;
  result.verdict.kind = "wrong";
  result.verdict.reason = "element 3 of output 0";
  return result;
}

struct AgentFixture : RoleFixture<SubgraphAgent> {
  explicit AgentFixture(const std::vector<std::string>& ids,
                        const std::string& target = "cpu",
                        const std::vector<Gpu>& gpus = {})
      : AgentFixture(ids, options_for(target), gpus) {}

  AgentFixture(const std::vector<std::string>& ids, const RunOptions& options,
               const std::vector<Gpu>& gpus = {}) {
    OptimizeSubgraph work;
    work.machine.gpus = gpus;
    work.subgraph = "sg";
    work.options = options;
    const auto asked = give(address::dispatcher, work);
    CHECK(only<SeedsRequest>(asked).front().first == "seeds/compiler");
    SeedsReply reply{"sg", "compiler", {}, {}, {}};
    for (const auto& id : ids) reply.seeds.push_back(seed(id));
    const auto sent = give("seeds/compiler", reply);
    CHECK(only<VerifySeed>(sent).size() == ids.size());
    answer = sent;
  }
  static RunOptions options_for(const std::string& target) {
    RunOptions options;
    options.target = target;
    return options;
  }
  std::vector<Outgoing> result(const SeedResult& r) {
    return give("worker/sg." + r.seed.id, r);
  }
  std::vector<Outgoing> answer;
};

}  // namespace

TEST_CASE("the fastest right seed is timed once more and wins") {
  AgentFixture agent({"a", "b", "c"});
  agent.result(correct_result("a", 50, 100));
  agent.result(wrong("b"));
  const auto last = agent.result(correct_result("c", 40, 100));
  const auto timing = only<TimeSeed>(last);
  REQUIRE(timing.size() == 1);
  CHECK(timing.front().first == "worker/sg.c");
  CHECK(timing.front().second.with_compile);
  const auto done =
      single<SubgraphDone>(agent.result(correct_result("c", 41, 100)));
  CHECK(done.outcome == "won");
  CHECK(done.best.seed.id == "c");
  CHECK(done.seeds == 3);
  CHECK(done.correct == 2);
}

TEST_CASE("a right kernel that is not faster than eager has lost") {
  AgentFixture agent({"a"});
  agent.result(correct_result("a", 99, 100));
  const auto done =
      single<SubgraphDone>(agent.result(correct_result("a", 99, 100)));
  CHECK(done.outcome == "not_faster");
}

TEST_CASE("speed is compared beside eager, not across moments") {
  AgentFixture agent({"a", "b"});
  agent.result(correct_result("a", 50, 200));  // 4x at a slow moment
  const auto last =
      agent.result(correct_result("b", 30, 60));  // 2x at a fast one
  CHECK(only<TimeSeed>(last).front().first == "worker/sg.a");
}

TEST_CASE("a device's events are compared across moments") {
  AgentFixture agent({"a", "b"});
  SeedResult slow = correct_result("a", 50, 200);
  SeedResult fast = correct_result("b", 30, 60);
  slow.timing.floor_us = fast.timing.floor_us = 10;
  agent.result(slow);
  CHECK(only<TimeSeed>(agent.result(fast)).front().first == "worker/sg.b");
}

TEST_CASE("a best one whose last timing would be as the one it had has it") {
  RunOptions options;
  options.compile_baseline = false;
  options.final_timing_ms = options.timing_ms;
  AgentFixture agent({"a", "b"}, options);
  agent.result(correct_result("a", 50, 100));
  const auto last = agent.result(correct_result("b", 40, 100));
  CHECK(only<TimeSeed>(last).empty());
  CHECK(single<SubgraphDone>(last).best.seed.id == "b");
}

TEST_CASE("a winner that fails its last timing gives way to the next") {
  AgentFixture agent({"a", "b"});
  agent.result(correct_result("a", 10, 100));
  agent.result(correct_result("b", 50, 100));
  SeedResult cheated = correct_result("a", 10, 100);
  cheated.verdict.correct = false;
  const auto next = agent.result(cheated);
  CHECK(only<TimeSeed>(next).front().first == "worker/sg.b");
  CHECK(single<SubgraphDone>(agent.result(correct_result("b", 50, 100)))
            .outcome == "won");
}

TEST_CASE("with no right seed the verdict is wrong, with a reason") {
  AgentFixture agent({"a"});
  const auto done = single<SubgraphDone>(agent.result(wrong("a")));
  CHECK(done.outcome == "wrong");
  CHECK(done.reason.find("element 3") != std::string::npos);
}

TEST_CASE("when nothing could be verified the verdict is failed") {
  AgentFixture agent({"a"});
  SeedResult locations_lost;
  locations_lost.seed = seed("a");
  locations_lost.failure = {"failed", "the oracle died"};
  const auto done = single<SubgraphDone>(agent.result(locations_lost));
  CHECK(done.outcome == "failed");
  CHECK(done.reason.find("oracle died") != std::string::npos);
}

TEST_CASE("no seeds at all is a failed verdict") {
  AgentFixture agent({});
  CHECK(single<SubgraphDone>(agent.answer).outcome == "failed");
}

TEST_CASE("a doubled result gives no second verdict") {
  AgentFixture agent({"a"});
  agent.result(correct_result("a", 50, 100));
  agent.result(correct_result("a", 50, 100));
  CHECK(agent.result(correct_result("a", 50, 100)).empty());
}

TEST_CASE("where nothing can be timed, a right seed is proven, not fast") {
  AgentFixture agent({"a", "b"}, "triton");
  agent.result(wrong("a"));
  SeedResult untimed = correct_result("b", 50, 100);
  untimed.timed = false;
  untimed.timing = {};
  const auto done = single<SubgraphDone>(agent.result(untimed));
  CHECK(done.outcome == "proven");
  CHECK(done.best.seed.id == "b");
  CHECK(done.reason.contains("no GPU"));
}

TEST_CASE("where nothing can be timed, one right seed is enough") {
  AgentFixture agent({"a", "b", "c"}, "triton");
  CHECK(agent.result(wrong("a")).empty());
  SeedResult untimed = correct_result("b", 50, 100);
  untimed.timed = false;
  const auto last = agent.result(untimed);
  CHECK(only<StopSeed>(last).front().first == "worker/sg.c");
  CHECK(single<SubgraphDone>(last).outcome == "proven");
}

TEST_CASE("a seed without an answer in time is no wrong one") {
  SeedResult late = wrong("a");
  late.verdict.kind = "timed_out";
  late.verdict.reason = "no answer within 60 s";
  AgentFixture alone({"a"});
  const auto done = single<SubgraphDone>(alone.result(late));
  CHECK(done.outcome == "failed");
  CHECK(done.reason.contains("no answer within 60 s"));
  AgentFixture both({"a", "b"});
  CHECK(both.result(late).empty());
  CHECK(single<SubgraphDone>(both.result(wrong("b"))).outcome == "wrong");
}

TEST_CASE("where nothing can be timed, a wrong seed is still wrong") {
  AgentFixture agent({"a"}, "triton");
  CHECK(single<SubgraphDone>(agent.result(wrong("a"))).outcome == "wrong");
}

namespace {

/// A GPU's agent, and a result at that share of the memory's floor.
struct RooflineFixture : AgentFixture {
  RooflineFixture() : AgentFixture({"a", "b"}, "triton", {small_cache()}) {}

  static Gpu small_cache() {
    Gpu gpu;
    gpu.l2_bytes = 50;
    return gpu;
  }

  SeedResult at(double share, std::int64_t bytes) {
    SeedResult near = correct_result("a", 50, 100);
    near.timing.bytes_floor = bytes;
    near.timing.floor_us = 50 * share;
    return near;
  }
};

}  // namespace

TEST_CASE("a kernel near the floor stops the search") {
  RooflineFixture agent;
  const auto sent = agent.result(agent.at(0.96, 1000));
  CHECK(only<StopSeed>(sent).front().first == "worker/sg.b");
  CHECK(only<TimeSeed>(sent).front().first == "worker/sg.a");
  CHECK(
      agent.result(correct_result("b", 10, 100)).empty());  // under way already
  CHECK(single<SubgraphDone>(agent.result(agent.at(0.96, 1000))).best.seed.id ==
        "a");
}

TEST_CASE("a kernel far from the floor, or within the cache, does not") {
  for (const auto& [share, bytes] : {std::pair{0.9, 1000}, {0.96, 99}}) {
    RooflineFixture agent;
    CHECK(agent.result(agent.at(share, bytes)).empty());
  }
}

TEST_CASE("a language model is told what torch.compile takes, timed once") {
  RunOptions options;
  options.seeds = {"compiler", "llm"};
  AgentFixture agent({"a"}, options);
  const auto first = agent.result(correct_result("a", 50, 100));
  CHECK(only<RefineRequest>(first).empty());
  const auto timing = single<TimeSeed>(first);
  CHECK(timing.with_compile);
  SeedResult beside = correct_result("a", 50, 100);
  beside.timing.compile = {70, 69, 71, 9};
  const auto asked = single<RefineRequest>(agent.result(beside));
  CHECK(asked.best.timing.compile.median_us == 70);
  SeedsReply reply{"sg", "llm", {seed("llm-0")}, {}, {}};
  reply.seeds[0].origin = "llm";
  agent.give("seeds/llm", reply);
  SeedResult better = correct_result("llm-0", 20, 100);
  better.seed.origin = "llm";
  const auto again = agent.result(better);
  CHECK(only<TimeSeed>(again).empty());
  const auto refine = single<RefineRequest>(again);
  CHECK(refine.best.seed.id == "llm-0");
  CHECK(refine.best.timing.compile.median_us == 70);
}

TEST_CASE("where torch.compile cannot be timed the model is asked without") {
  RunOptions options;
  options.seeds = {"compiler", "llm"};
  AgentFixture agent({"a"}, options);
  agent.result(correct_result("a", 50, 100));
  SeedResult failed;
  failed.seed = seed("a");
  failed.failure = {"failed", "it took too long"};
  const auto asked = single<RefineRequest>(agent.result(failed));
  CHECK(asked.best.timing.candidate.median_us == 50);
  CHECK(asked.best.timing.compile.runs == 0);
}

TEST_CASE("a search whose time is over does not wait for torch.compile") {
  RunOptions options;
  options.seeds = {"compiler", "llm"};
  AgentFixture agent({"a"}, options);
  agent.result(correct_result("a", 50, 100));
  const auto sent = agent.give(address::dispatcher, StopSearch{"enough"});
  CHECK(only<StopSeed>(sent).front().first == "worker/sg.a");
  CHECK(only<RefineRequest>(sent).empty());
  CHECK(single<SubgraphDone>(sent).outcome == "won");
}

namespace {

/// An agent whose kernels are judged at those locations, and a model is asked.
struct LocatedFixture : RoleFixture<SubgraphAgent> {
  explicit LocatedFixture(const std::vector<Location>& locations,
                          const std::string& search = "greedy",
                          const std::string& device_class = "") {
    work.device_class = device_class;
    work.may_gain_locations = !device_class.empty();
    work.subgraph = "sg";
    work.options.seeds = {"compiler", "llm"};
    work.options.llm.search = search;
    work.locations = locations;
    give(address::dispatcher, work);
    SeedsReply reply{"sg", "compiler", {seed("a"), seed("b")}, {}, {}};
    give("seeds/compiler", reply);
  }
  std::vector<Outgoing> result(SeedResult r) {
    r.location = location;
    return give("worker/sg." + r.seed.id + suffix, r);
  }
  /// The dispatcher names these locations, too.
  std::vector<Outgoing> joined(const std::vector<Location>& more) {
    work.locations.insert(work.locations.end(), more.begin(), more.end());
    return give(address::dispatcher, work);
  }
  std::vector<Outgoing> locations_lost(const std::string& id) {
    SeedResult r;
    r.seed = seed(id);
    r.failure = {"node_lost", "node n1 no longer offers cpu"};
    return result(r);
  }
  /// The model's kernel is being built at the location.
  std::vector<Outgoing> written(const std::string& id) {
    SeedsReply reply{"sg", "llm", {seed(id)}, {}, {}};
    reply.seeds[0].origin = "llm";
    return give("seeds/llm", reply);
  }
  OptimizeSubgraph work;
  Location location = "n1";
  std::string suffix{};  ///< of the workers' addresses
};

/// Where the first seed is verified.
Location work_location(const std::vector<Outgoing>& sent) {
  return only<VerifySeed>(sent).front().second.location;
}

/// Those that the model's role is told to stop for.
std::vector<StopSeed> stops_of_model(const std::vector<Outgoing>& sent) {
  std::vector<StopSeed> stops;
  for (const auto& [to, stop] : only<StopSeed>(sent)) {
    if (to == "seeds/llm") stops.push_back(stop);
  }
  return stops;
}

}  // namespace

TEST_CASE("with the last place gone no model is asked for first kernels") {
  LocatedFixture agent({"n1"});
  agent.result(correct_result("a", 50, 100));
  const auto sent = agent.locations_lost("b");
  CHECK(only<RefineRequest>(sent).empty());
  CHECK(
      single<TimeSeed>(sent).with_compile);  // The last kernel: n1 may be back.
  const auto done = single<SubgraphDone>(agent.locations_lost("a"));
  CHECK(done.best.seed.id == "a");
  CHECK(done.llm.rounds == 0);
  CHECK(done.llm.note == "not asked: node n1 no longer offers cpu");
}

TEST_CASE("what waits to be asked is not, once the last place is gone") {
  LocatedFixture agent({"n1"});
  agent.result(correct_result("a", 50, 100));
  agent.result(wrong("b"));  // and a is timed beside torch.compile
  const auto sent = agent.locations_lost("a");
  CHECK(only<RefineRequest>(sent).empty());
  CHECK(single<SubgraphDone>(agent.locations_lost("a")).best.seed.id == "a");
}

TEST_CASE("a model's calls end with the last place, and no round follows") {
  LocatedFixture agent({"n1"});
  agent.result(wrong("a"));
  CHECK(single<RefineRequest>(agent.result(wrong("b"))).round == 0);
  agent.written("llm-0");
  SeedResult slow = correct_result("llm-0", 50, 100);
  slow.seed.origin = "llm";
  agent.result(slow);  // timed beside torch.compile
  CHECK(single<RefineRequest>(agent.result(slow)).round == 1);
  agent.written("llm-1");
  const auto sent = agent.locations_lost("llm-1");
  CHECK(only<RefineRequest>(sent).empty());
  CHECK(single<TimeSeed>(sent).with_compile);
}

TEST_CASE("a model's call that is under way is stopped with the last place") {
  LocatedFixture agent({"n1"}, "beam:2");
  agent.result(correct_result("a", 50, 100));
  agent.result(correct_result("b", 60, 100));
  agent.result(
      correct_result("a", 50, 100));  // With torch.compile as a baseline.
  agent.written("llm-0");
  CHECK(only<RefineRequest>(agent.result(correct_result("llm-0", 40, 100)))
            .size() == 2);
  agent.written("llm-1");
  const auto sent =
      agent.locations_lost("llm-1");  // the second call is not answered
  REQUIRE(stops_of_model(sent).size() == 1);
  CHECK(only<VerifySeed>(agent.written("llm-2")).empty());
}

TEST_CASE("while a place is left the model is asked, and not stopped") {
  LocatedFixture agent({"n1", "n2"});
  agent.result(correct_result("a", 50, 100));
  agent.result(wrong("b"));
  const auto sent = agent.locations_lost("a");
  CHECK(single<RefineRequest>(sent).round == 0);
  CHECK(stops_of_model(sent).empty());
  CHECK(single<VerifySeed>(sent).location == "n2");
}

TEST_CASE("an agent whose places are gone waits, and goes on where one comes") {
  LocatedFixture agent({"n1"}, "greedy", "a class");
  agent.result(correct_result("a", 50, 100));
  const auto lost = agent.locations_lost("b");
  CHECK(only<SubgraphDone>(lost).empty());
  CHECK(only<TimeSeed>(lost).empty());
  CHECK(single<Progress>(lost).stage == "waits");
  // Other results of the lost place change nothing.
  CHECK(agent.locations_lost("b").empty());
  SUBCASE("another") { agent.location = "n2"; }
  SUBCASE("the same, back") {}
  const auto moved = agent.joined({agent.location});
  CHECK(only<VerifySeed>(moved).size() == 2);  // what was right, anew
  for (const auto& [to, order] : only<VerifySeed>(moved)) {
    CHECK(order.location == agent.location);
    CHECK(to == "worker/sg." + order.seed.id + ".1");
  }
  agent.location = "n1";  // late
  CHECK(agent.result(wrong("a")).empty());
  agent.location = work_location(moved);
  agent.suffix = ".1";
  agent.result(correct_result("a", 50, 100));
  CHECK(only<TimeSeed>(agent.result(wrong("b"))).front().first ==
        "worker/sg.a.1");
}

TEST_CASE("an agent that no place comes for ends with what it knows") {
  LocatedFixture agent({"n1", "n2"}, "greedy", "a class");
  agent.result(correct_result("a", 50, 100));
  SUBCASE("where the last one goes") {
    agent.locations_lost("b");
    agent.location = "n2";
    agent.suffix = ".1";
    agent.result(correct_result("a", 40, 100));
  }
  SUBCASE("where it was told of another before") {
    agent.joined({"n3"});
    for (const char* next : {"n2", "n3"}) {
      CHECK(only<VerifySeed>(agent.locations_lost("b")).size() == 2);
      agent.location = next;
      agent.suffix = "." + std::to_string(agent.location == "n2" ? 1 : 2);
      agent.result(correct_result("a", 40, 100));
    }
  }
  CHECK(only<SubgraphDone>(agent.locations_lost("b")).empty());
  const auto done = single<SubgraphDone>(
      agent.give(address::dispatcher, StopSearch{"there is no node"}));
  CHECK(done.outcome == "won");
  CHECK(done.best.seed.id == "a");
  CHECK(done.best.timing.candidate.median_us == 40);
  CHECK(done.reason == "there is no node");
}

TEST_CASE("an agent with the head among its places does not wait for a node") {
  LocatedFixture agent({"", "n1"}, "greedy", "a class");
  agent.location = "";
  agent.result(correct_result("a", 50, 100));
  agent.locations_lost("b");
  agent.location = "n1";
  agent.suffix = ".1";
  agent.result(correct_result("a", 50, 100));
  CHECK(single<TimeSeed>(agent.locations_lost("b")).with_compile);
}
