#include "actors/dispatcher.hpp"

#include <nlohmann/json.hpp>

#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "compiler/fusion/regroup.hpp"
#include "compiler/targets.hpp"
#include "tests/actors/run_fixture.hpp"

using namespace weft;

namespace {

struct DispatcherFixture : RunFixture<Dispatcher> {
  explicit DispatcherFixture(const Graph& graph = two_piece_graph(),
                             const std::vector<Gpu>& gpus = {},
                             const std::map<std::string, double>& probed = {}) {
    plan = partition(graph, *find_target("cpu"));
    run = small_run(blobs);
    run.machine.gpus = gpus;
    run.machine.gpu_numbers = probed;
    if (!probed.empty()) run.vocabulary = vocabulary_version;
    const std::string blob = blobs.put(plan_to_json(plan));
    take(say(address::extractor, Dispatch{blob, run}));
  }
  /// Keeps what was asked, and says that all files were written.
  void take(const std::vector<Outgoing>& sent) {
    for (const auto& [to, m] : only<OptimizeSubgraph>(sent)) {
      works.push_back(m);
      started.push_back(m.subgraph);
      compiles.push_back(m.options.compile_baseline);
      final_ms.push_back(m.options.final_timing_ms);
    }
    for (const auto& [to, m] : only<Compose>(sent)) composed.push_back(m);
    for (const auto& [to, m] : only<RunFinished>(sent)) finished.push_back(m);
    for (const auto& [to, m] : only<WriteFilesRequest>(sent)) {
      for (const auto& file : m.files) paths.push_back(file.path);
      take(say(address::files, WriteFilesReply{m.effect, failure}));
    }
  }
  void done(const std::string& id, const std::string& outcome) {
    SubgraphDone message;
    message.subgraph = id;
    message.outcome = outcome;
    message.best.verdict.correct = outcome == "won";
    message.best.seed.target = "cpu";
    message.best.seed.source = blobs.put("// the kernel");
    take(say(address::agent(id), message));
  }
  bool wrote(const std::string& path) const {
    return std::find(paths.begin(), paths.end(), path) != paths.end();
  }

  Plan plan;
  RunStart run;
  Failure failure;
  std::vector<OptimizeSubgraph> works;
  std::vector<std::string> started;
  std::vector<bool> compiles;
  std::vector<std::int64_t> final_ms;
  std::vector<std::string> paths;
  std::vector<Compose> composed;
  std::vector<RunFinished> finished;
};

Graph one_piece_graph() {
  const TensorType square = dense({64, 64});
  GraphBuilder builder;
  builder.input("x", square)
      .call("y", "sin", {"x"}, square)
      .call("z", "exp", {"y"}, square)
      .outputs({"z"});
  return builder.graph;
}

}  // namespace

TEST_CASE("agents start so many at a time as --jobs says") {
  DispatcherFixture dispatcher;
  REQUIRE(dispatcher.plan.subgraphs.size() == 2);
  CHECK(dispatcher.started.size() == 1);
  dispatcher.done(dispatcher.started[0], "not_faster");
  CHECK(dispatcher.started.size() == 2);
  CHECK(dispatcher.composed.empty());
}

TEST_CASE("each subgraph gets its problem, its reference and its test") {
  DispatcherFixture dispatcher;
  const std::string folder = "kernels/" + dispatcher.started[0] + "/";
  for (const char* name :
       {"problem.txt", "reference.py", "test_kernel.py", "graph.json"}) {
    CHECK(dispatcher.wrote(folder + name));
  }
  CHECK(!dispatcher.wrote(folder + "kernel.py"));
  dispatcher.done(dispatcher.started[0], "won");
  CHECK(dispatcher.wrote(folder + "kernel.py"));
  CHECK(dispatcher.wrote(folder + "kernel.cpp"));
}

TEST_CASE("the composer gets all verdicts in the plan's order") {
  DispatcherFixture dispatcher;
  dispatcher.done(dispatcher.started[0], "won");
  dispatcher.done(dispatcher.started[1], "wrong");
  REQUIRE(dispatcher.composed.size() == 1);
  const auto& results = dispatcher.composed.front().results;
  REQUIRE(results.size() == 2);
  CHECK(results[0].subgraph == dispatcher.plan.subgraphs[0].id);
  CHECK(results[1].outcome == "wrong");
}

TEST_CASE("a doubled verdict counts once") {
  DispatcherFixture dispatcher;
  dispatcher.done(dispatcher.started[0], "won");
  dispatcher.done(dispatcher.started[0], "wrong");
  CHECK(dispatcher.composed.empty());
}

TEST_CASE("a model without subgraphs goes to the composer at once") {
  const TensorType square = dense({64, 64});
  GraphBuilder builder;
  builder.input("x", square).call("y", "mm", {"x", "x"}, square).outputs({"y"});
  DispatcherFixture dispatcher(builder.graph);
  REQUIRE(dispatcher.composed.size() == 1);
  CHECK(dispatcher.composed.front().results.empty());
}

TEST_CASE("a file that cannot be written ends the run") {
  DispatcherFixture dispatcher;
  dispatcher.failure = {"missing", "no space"};
  dispatcher.done(dispatcher.started[0], "won");
  REQUIRE(dispatcher.finished.size() == 1);
  CHECK(dispatcher.finished.front().exit_code == 3);
}

TEST_CASE("a piece that is the whole model is compiled once, as the model") {
  DispatcherFixture whole(one_piece_graph());
  CHECK(whole.compiles == std::vector{false});
  CHECK(DispatcherFixture().compiles.front());
}

TEST_CASE("on a device it is timed for long once, as the model") {
  const RunOptions usual;
  const std::vector<Gpu> gpus(1);
  CHECK(DispatcherFixture(one_piece_graph(), gpus).final_ms.front() ==
        usual.timing_ms);
  CHECK(DispatcherFixture(one_piece_graph()).final_ms.front() ==
        usual.final_timing_ms);
  CHECK(DispatcherFixture(two_piece_graph(), gpus).final_ms.front() ==
        usual.final_timing_ms);
}

TEST_CASE("the subgraphs of all of a plan's cuts are worked on") {
  DispatcherFixture dispatcher;
  Plan both = dispatcher.plan;
  both.others = {partition(one_piece_graph(), *find_target("cpu"))};
  dispatcher.role = Dispatcher();
  dispatcher.started.clear();
  dispatcher.take(dispatcher.say(
      address::extractor,
      Dispatch{dispatcher.blobs.put(plan_to_json(both)), dispatcher.run}));
  for (std::size_t i = 0; i < 3; ++i) {
    REQUIRE(dispatcher.started.size() > i);
    CHECK(dispatcher.composed.empty());
    dispatcher.done(dispatcher.started[i], "won");
  }
  REQUIRE(dispatcher.composed.size() == 1);
  CHECK(dispatcher.composed.front().results.size() == 3);
}

namespace {

/// Five calls in a row, each a piece of its own, with a language model that is
/// asked for one kernel of neighbours.
struct Chain : DispatcherFixture {
  /// `slow`: those whose kernel takes longer than its parts, by when they
  /// were asked for.
  explicit Chain(const std::set<std::size_t>& slow = {})
      : DispatcherFixture(graph()) {
    const auto apart = regroup(plan, {{"c0"}, {"c1"}, {"c2"}, {"c3"}, {"c4"}});
    REQUIRE(apart);
    run.options.llm.name = "mini";
    run.options.llm.fuse = true;
    role = Dispatcher();
    works.clear();
    take(say(address::extractor,
             Dispatch{blobs.put(plan_to_json(*apart)), run}));
    for (std::size_t i = 0; i < works.size(); ++i) {
      SubgraphDone verdict;
      verdict.subgraph = works[i].subgraph;
      verdict.outcome = "won";
      verdict.best.seed.target = "cpu";
      verdict.best.timing.candidate.median_us = slow.contains(i) ? 1000 : 10;
      parts.push_back(works[i].parts.size());
      take(say(address::agent(verdict.subgraph), verdict));
    }
  }
  static Graph graph() {
    const TensorType square = dense({64, 64});
    GraphBuilder builder;
    builder.input("x", square).call("c0", "relu", {"x"}, square);
    builder.call("c1", "exp", {"c0"}, square);
    builder.call("c2", "tanh", {"c1"}, square);
    builder.call("c3", "sin", {"c2"}, square);
    builder.call("c4", "cos", {"c3"}, square).outputs({"c4"});
    return builder.graph;
  }
  std::vector<std::size_t> parts;  ///< that each is to replace, as asked for
};

using Counts = std::vector<std::size_t>;

}  // namespace

TEST_CASE("neighbouring winners become one kernel, of four at most") {
  const Chain chain;
  // Five alone, two pairs, and one of the pairs: with the fifth it were five.
  CHECK(chain.parts == Counts{0, 0, 0, 0, 0, 2, 2, 2});
  REQUIRE(chain.composed.size() == 1);
  CHECK(chain.composed.front().results.size() == 2);
}

TEST_CASE("a chain grows only where the step before was worth it") {
  // The first pair is not: its second goes with what follows, its first with
  // nothing.
  const Chain chain({5});
  CHECK(chain.parts == Counts{0, 0, 0, 0, 0, 2, 2, 2, 2});
  REQUIRE(chain.composed.size() == 1);
  CHECK(chain.composed.front().results.size() == 2);
}

TEST_CASE("Dispatcher_LosesANode_WithAllItsOffers") {
  DispatcherFixture dispatcher;
  Capacities machine, device;
  machine.location = "n1";
  device.location = "n1/GPU-b";
  Capacities other = device;
  other.location = "n2/GPU-c";
  for (Capacities* offer : {&machine, &device, &other}) {
    offer->units = {{"gpu", 4}};
    dispatcher.take(dispatcher.say(address::broker, *offer));
  }
  CHECK(dispatcher.role.describe()["offers"].size() == 3);
  dispatcher.take(dispatcher.say(
      address::broker, NodeLost{"n1", {"n1", "n1/GPU-b"}, "it died"}));
  const auto left = dispatcher.role.describe()["offers"];
  CHECK(left.size() == 1);
  CHECK(left.dump().contains("n2/GPU-c"));
}

namespace {

/// A head that does not judge, and its nodes.
struct BareHead : RunFixture<Dispatcher> {
  /// `is_spared`: it could judge (--no-local).
  explicit BareHead(bool is_spared = false, std::int64_t budget_ms = 0,
                    int vocabulary = vocabulary_version) {
    if (is_spared) take(say(address::broker, Capacities{}));
    RunStart run = small_run(blobs);
    run.vocabulary = vocabulary;
    run.device_class.device = "a processor";
    run.node_wait_ms = 60'000;
    run.options.budget_ms = budget_ms;
    if (is_spared) run.head_can = {capability::judge};
    const Plan plan = partition(two_piece_graph(), *find_target("cpu"));
    take(say(address::extractor, Dispatch{blobs.put(plan_to_json(plan)), run}));
  }
  void take(const std::vector<Outgoing>& sent) {
    for (const auto& [to, m] : only<OptimizeSubgraph>(sent)) {
      CHECK(to == address::agent(m.subgraph));
      works.push_back(m);
    }
    for (const auto& [to, m] : only<StopSearch>(sent)) stopped.push_back(to);
    for (const auto& [to, m] : only<Progress>(sent)) {
      if (m.stage == "failed") failed.push_back(m.text);
      if (m.stage == "waits") waits.push_back(m.text);
    }
    for (const auto& [to, m] : only<TimerRequest>(sent)) timers.push_back(m);
    for (const auto& [to, m] : only<WriteFilesRequest>(sent)) {
      take(say(address::files, WriteFilesReply{m.effect, {}}));
    }
  }
  void join(const std::string& node) {
    Capacities offer;
    offer.location = node;
    offer.units = {{"cpu", 2}};
    offer.capabilities = {capability::judge};
    take(say(address::broker, offer));
  }
  void lose(const std::string& node) {
    take(say(address::broker, NodeLost{node, {node}, "it died"}));
  }
  void fire(const TimerRequest& timer) {
    take(say(address::clock, TimerFired{timer.effect}));
  }

  std::vector<OptimizeSubgraph> works;
  std::vector<Address> stopped;
  std::vector<std::string> failed, waits;
  std::vector<TimerRequest> timers;
};

using Locations = std::vector<Location>;

}  // namespace

TEST_CASE("agents are told of nodes that join, and of those that are back") {
  BareHead dispatcher;
  dispatcher.join("n1");
  REQUIRE(dispatcher.works.size() == 1);
  CHECK(dispatcher.works[0].locations == Locations{"n1"});
  dispatcher.join("n2");
  REQUIRE(dispatcher.works.size() == 2);
  CHECK(dispatcher.works[1].subgraph == dispatcher.works[0].subgraph);
  CHECK(dispatcher.works[1].locations == Locations{"n1", "n2"});
  dispatcher.join("n2");  // says the same again
  dispatcher.lose("n1");
  CHECK(dispatcher.works.size() == 2);
  dispatcher.join("n1");
  REQUIRE(dispatcher.works.size() == 3);
  CHECK(dispatcher.works[2].locations == Locations{"n1", "n2", "n1"});
}

TEST_CASE("a spared head without nodes says what to start") {
  std::int64_t budget_ms = 0;
  SUBCASE("it waits, like its user") {}
  SUBCASE("and waits no longer than its budget") { budget_ms = 100'000; }
  BareHead dispatcher(true, budget_ms);
  REQUIRE(dispatcher.waits.size() == 1);
  CHECK(dispatcher.waits[0].contains("weft node --join"));
  CHECK(dispatcher.timers.size() == (budget_ms > 0 ? 1 : 0));
  if (budget_ms == 0) return;
  CHECK(dispatcher.timers[0].after_ms <= budget_ms);
  dispatcher.fire(dispatcher.timers[0]);
  CHECK(dispatcher.failed.size() == 2);
}

TEST_CASE("a run of an older version is decided as it was") {
  BareHead dispatcher(false, 0, kLaterLocationsVocabulary - 1);
  dispatcher.join("n1");
  dispatcher.join("n2");
  REQUIRE(dispatcher.works.size() == 1);
  CHECK_FALSE(dispatcher.works[0].may_gain_locations);
  dispatcher.timers.clear();
  dispatcher.lose("n1");
  dispatcher.lose("n2");
  CHECK(dispatcher.timers.empty());

  BareHead spared(true, 100'000, kLaterLocationsVocabulary - 1);
  CHECK(spared.waits ==
        std::vector<std::string>{"for a node: the head is spared"});
  CHECK(spared.timers.empty());
}

TEST_CASE("an agent without a node is stopped in time, and nothing is begun") {
  BareHead dispatcher;
  dispatcher.join("n1");
  dispatcher.timers.clear();
  dispatcher.lose("n1");
  REQUIRE(dispatcher.timers.size() == 1);
  const TimerRequest timer = dispatcher.timers.front();
  CHECK(timer.after_ms == 60'000);
  SUBCASE("no node comes") {
    dispatcher.fire(timer);
    CHECK(dispatcher.stopped ==
          std::vector{address::agent(dispatcher.works[0].subgraph)});
    REQUIRE(dispatcher.failed.size() == 1);  // the other subgraph
    CHECK(dispatcher.failed[0].contains(
        "not begun: there is no node of the class a processor"));
    // Until the agent has its verdict, a node may come: that is too late.
    dispatcher.join("n2");
    CHECK(dispatcher.stopped.size() == 1);
  }
  SUBCASE("a node comes") {
    dispatcher.join("n2");
    CHECK(dispatcher.works.back().locations == Locations{"n1", "n2"});
    dispatcher.fire(timer);
    CHECK(dispatcher.stopped.empty());
    CHECK(dispatcher.failed.empty());
  }
}

TEST_CASE("an agent is told what was measured on the device that it gets") {
  Gpu own;
  own.name = "H200";
  own.uuid = "GPU-a";
  DispatcherFixture dispatcher(two_piece_graph(), {own},
                               {{"copy_gbps", 4'000}});
  REQUIRE(dispatcher.works.size() == 1);
  CHECK(dispatcher.works[0].machine.gpu_numbers.at("copy_gbps") == 4'000);
  Capacities of_head, of_node;
  of_head.location = "/GPU-a";
  of_node.location = "n1/GPU-b";
  for (Capacities* capacities : {&of_head, &of_node}) {
    capacities->units = {{"gpu", 4}};
    capacities->gpu = own;
  }
  of_node.gpu.uuid = "GPU-b";
  bool is_probed = true;
  SUBCASE("a node's") { of_node.gpu_numbers = {{"copy_gbps", 3'000}}; }
  SUBCASE("a node's that was not probed: the run's") { is_probed = false; }
  dispatcher.take(dispatcher.say(address::broker, of_head));
  dispatcher.take(dispatcher.say(address::broker, of_node));
  REQUIRE(dispatcher.works.size() == 2);
  REQUIRE(!dispatcher.works[1].locations.empty());
  CHECK(dispatcher.works[1].locations.front() == "n1/GPU-b");
  CHECK(dispatcher.works[1].machine.gpus.front().uuid == "GPU-b");
  CHECK(dispatcher.works[1].machine.gpu_numbers.at("copy_gbps") ==
        (is_probed ? 3'000 : 4'000));
}
