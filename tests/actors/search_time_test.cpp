#include "actors/search_time.hpp"

#include <utility>

#include "actors/composer.hpp"
#include "actors/dispatcher.hpp"
#include "actors/llm/seeds.hpp"
#include "actors/subgraph_agent.hpp"
#include "tests/actors/run_fixture.hpp"

using namespace weft;

namespace {

/// Two pieces, the second of which moves 16 times the bytes.
Graph uneven_graph() {
  const TensorType small = dense({64, 64});
  const TensorType large = dense({256, 256});
  GraphBuilder builder;
  builder.input("x", small)
      .input("y", large)
      .call("a", "relu", {"x"}, small)
      .call("b", "mm", {"a", "x"}, small)
      .call("c", "tanh", {"y"}, large)
      .outputs({"b", "c"});
  return builder.graph;
}

Plan uneven_plan() { return partition(uneven_graph(), *find_target("cpu")); }

constexpr std::int64_t kSecondUs = 1'000'000;

/// A run with a budget, 10 s of which went for the capture.
struct BudgetFixture : RunFixture<Dispatcher> {
  explicit BudgetFixture(std::int64_t budget_ms = 100'000) {
    RunStart run = small_run(blobs);
    run.options.budget_ms = budget_ms;
    run.options.variants_max = 12;  // for which 100 s are little
    now_us = 10 * kSecondUs;
    sent = say(address::extractor,
               Dispatch{blobs.put(plan_to_json(plan)), run, 0});
    for (const auto& [to, files] : only<WriteFilesRequest>(sent)) {
      say(address::files, WriteFilesReply{files.effect, {}});
    }
  }
  /// The piece at that location of the plan.
  const std::string& id(std::size_t index) const {
    return plan.subgraphs[index].id;
  }
  std::vector<Outgoing> done(const std::string& subgraph) {
    SubgraphDone message;
    message.subgraph = subgraph;
    message.outcome = "not_faster";
    sent = say(address::agent(subgraph), message);
    for (const auto& [to, files] : only<WriteFilesRequest>(sent)) {
      for (Outgoing& more :
           say(address::files, WriteFilesReply{files.effect, {}})) {
        sent.push_back(std::move(more));
      }
    }
    return sent;
  }

  Plan plan = uneven_plan();
  std::vector<Outgoing> sent;
};

Seed seed(const std::string& id) { return {id, "cpu", "compiler", id, "src"}; }

SeedResult correct_result(const std::string& id, double over_eager) {
  SeedResult result;
  result.seed = seed(id);
  result.built = result.verdict.correct = result.timed = true;
  result.timing.candidate = {50, 45, 55, 9};
  result.timing.over_eager = {over_eager, 0.99 * over_eager, 1.01 * over_eager};
  return result;
}

/// An agent that verifies two seeds.
struct StoppedFixture : RoleFixture<SubgraphAgent> {
  explicit StoppedFixture(const std::vector<Location>& locations = {""}) {
    OptimizeSubgraph work;
    work.subgraph = "sg";
    work.locations = locations;
    give(address::dispatcher, work);
    SeedsReply reply{"sg", "compiler", {seed("a"), seed("b")}, {}, {}};
    give("seeds/compiler", reply);
  }
  std::vector<Outgoing> result(const SeedResult& r) {
    return give("worker/sg." + r.seed.id, r);
  }
  std::vector<Outgoing> stop() {
    return give(address::dispatcher, StopSearch{"time is over"});
  }
  /// The worker's word that nothing is being timed.
  std::vector<Outgoing> cancelled(const std::string& id) {
    return failed(id, "cancelled");
  }
  std::vector<Outgoing> failed(const std::string& id, const std::string& code) {
    SeedResult r;
    r.seed = seed(id);
    r.failure = {code, "time is over"};
    return result(r);
  }
};

}  // namespace

TEST_CASE("a part of the budget is kept for checking the whole") {
  RunOptions options;
  options.budget_ms = 100'000;
  CHECK(search_ms(options, 1'000) == 74'000);   // a quarter at least
  CHECK(search_ms(options, 20'000) == 40'000);  // two captures
  CHECK(search_ms(options, 40'000) == 10'000);  // half at most
  CHECK(search_ms(options, 90'000) == 0);
}

TEST_CASE("of a short budget less is kept: the processes are there") {
  RunOptions options;
  options.budget_ms = 20'000;
  CHECK(search_ms(options, 6'000) == 8'000);
  CHECK(search_ms(options, 2'000) == 13'000);
  CHECK(search_ms(options, 12'000) == 0);
  options.final_timing_ms = 0;  // the search needs less time, the check as much
  CHECK(search_ms(options, 6'000) == 4'000);
  CHECK(search_ms(options, 4'000) == 8'000);
}

TEST_CASE("of ten seconds the search has all that the capture leaves") {
  RunOptions options;
  options.budget_ms = 5'000;
  CHECK(search_ms(options, 3'000) == 2'000);
  CHECK(search_ms(options, 5'500) == 0);
  CHECK(search_ms(options, 3'000, true) == 0);  // in an earlier run
  options.budget_ms = 11'000;
  CHECK(search_ms(options, 3'000) == 5'000);
}

TEST_CASE("in a short time one subgraph at a time is searched for") {
  CHECK(subgraphs_at_once(8'000, 4) == 1);
  CHECK(subgraphs_at_once(25'000, 4) == 2);
  CHECK(subgraphs_at_once(100'000, 4) == 4);
}

TEST_CASE("where there is room, so is torch.compile's timing beside it") {
  RunOptions options;
  options.budget_ms = 500'000;
  CHECK(search_ms(options, 40'000) == 500'000 - 40'000 - 80'000 - 60'000);
  CHECK(search_ms(options, 120'000) == 500'000 - 120'000 - 250'000);
  options.compile_baseline = false;
  CHECK(search_ms(options, 40'000) == 500'000 - 40'000 - 125'000);
}

TEST_CASE("time is ample by the kernels that are to be judged in it") {
  RunOptions options;
  options.variants_max = 6;
  CHECK(is_ample(300'000, 10, options));
  CHECK(!is_ample(300'000, 11, options));
  options.variants_max = 1;
  CHECK(is_ample(300'000, 30, options));
  options.seeds.push_back(kLlmSource);
  CHECK(!is_ample(300'000, 1, options));
}

TEST_CASE("with little time, each subgraph has fewer kernels, but two") {
  RunOptions options;
  options.variants_max = 6;
  CHECK(kernels_each(285'000, 66, options) == 2);
  CHECK(kernels_each(310'000, 40, options) == 4);
  CHECK(kernels_each(310'000, 5, options) == 6);
  CHECK(kernels_each(25'000, 66, options) == 2);
  CHECK(kernels_each(8'000, 1, options) == 1);  // and with less, one
  options.variants_max = 1;
  CHECK(kernels_each(310'000, 5, options) == 1);
}

TEST_CASE("if the module is not timed, a kernel's timing is brief, too") {
  RunOptions options;
  options.variants_max = 6;
  options.final_timing_ms = 0;
  options.timing_ms = 200;
  CHECK(kernels_each(30'000, 10, options) == 3);
  CHECK(kernels_each(30'000, 40, options) == 2);
}

TEST_CASE("if the module is not timed, the dearest subgraph has most kernels") {
  RunOptions options;
  options.variants_max = 6;
  options.final_timing_ms = 0;
  options.timing_ms = 200;
  // 17 kernels for six subgraphs: those of equal work have as many.
  CHECK(kernels_by_share(17'000, 1.0 / 6, 5, 2, options) == 2);
  CHECK(kernels_by_share(17'000, 0.3, 5, 2, options) == 5);
  CHECK(kernels_by_share(17'000, 0.7, 5, 2, options) == 6);  // all there are
  // Two for each of the others come first.
  CHECK(kernels_by_share(17'000, 0.7, 7, 2, options) == 3);
  CHECK(kernels_by_share(17'000, 0.7, 20, 2, options) == 2);
  CHECK(kernels_by_share(8'000, 1, 0, 1, options) == 6);
  options.variants_max = 1;
  CHECK(kernels_by_share(17'000, 1, 0, 1, options) == 1);
}

TEST_CASE("the dearest subgraph goes first and has the greatest share") {
  const Plan plan = uneven_plan();
  REQUIRE(plan.subgraphs.size() == 2);
  SearchShares shares(plan);
  CHECK(shares.order() == std::vector<std::size_t>{1, 0});
  const auto large = shares.take(plan.subgraphs[1].id, 1'700'000, 1);
  CHECK(large > 1'500'000);
  CHECK(large < 1'700'000);
  // What is left is the last one's.
  CHECK(shares.take(plan.subgraphs[0].id, 50'000, 1) == 50'000);
}

TEST_CASE("a share is enough for a kernel, and no more than there is") {
  const Plan plan = uneven_plan();
  SearchShares shares(plan);
  CHECK(shares.take(plan.subgraphs[0].id, 60'000, 1) == 10'000);
  CHECK(shares.take(plan.subgraphs[1].id, 4'000, 2) == 4'000);
  // Others have the device meanwhile.
  SearchShares of_many(plan);
  CHECK(of_many.take(plan.subgraphs[0].id, 170'000, 16) == 160'000);
}

TEST_CASE("an agent is told when its share of the budget is over") {
  BudgetFixture dispatcher;
  const auto begun = only<OptimizeSubgraph>(dispatcher.sent);
  REQUIRE(begun.size() == 1);
  CHECK(begun.front().second.subgraph == dispatcher.id(1));
  const auto timer = single<TimerRequest>(dispatcher.sent);
  CHECK(timer.after_ms > 50'000);
  CHECK(timer.after_ms < 65'000);  // 100 s, less 10 and a quarter
  const auto answer = dispatcher.say(address::clock, TimerFired{timer.effect});
  CHECK(only<StopSearch>(answer).front().first ==
        address::agent(dispatcher.id(1)));
  CHECK(single<StopSearch>(answer).reason.contains("100 s"));
}

TEST_CASE("with little time, all subgraphs have the same number of kernels") {
  BudgetFixture dispatcher(25'000);  // 10 s are kept
  const auto dear = single<OptimizeSubgraph>(dispatcher.sent);
  CHECK(dear.options.variants_max == 1);
  BudgetFixture more(40'000);  // 10 s, and two subgraphs
  CHECK(single<OptimizeSubgraph>(more.sent).options.variants_max == 3);
  more.now_us += 5 * kSecondUs;
  const auto sent = more.done(more.id(1));
  CHECK(single<OptimizeSubgraph>(sent).options.variants_max == 3);
}

TEST_CASE("with a budget, dearer subgraphs have the device first") {
  BudgetFixture dispatcher;
  const auto dear = single<OptimizeSubgraph>(dispatcher.sent);
  const auto cheap =
      single<OptimizeSubgraph>(dispatcher.done(dispatcher.id(1)));
  CHECK(cheap.expected_gain > 0);
  CHECK(dear.expected_gain >= 8 * cheap.expected_gain);
}

TEST_CASE("with little time, torch.compile is timed beside the module alone") {
  BudgetFixture dispatcher;
  CHECK(!single<OptimizeSubgraph>(dispatcher.sent).options.compile_baseline);
}

TEST_CASE("with ample time, subgraphs are searched for as without a budget") {
  BudgetFixture dispatcher(1'000'000);
  const auto begun = single<OptimizeSubgraph>(dispatcher.sent);
  CHECK(begun.options.compile_baseline);
  // Its time is all that the search has.
  const std::int64_t search = 1'000'000 - 10'000 - 250'000;
  CHECK(single<TimerRequest>(dispatcher.sent).after_ms == search);
}

TEST_CASE("without one, subgraphs take turns") {
  RunFixture<Dispatcher> dispatcher;
  const Plan plan = uneven_plan();
  const auto sent = dispatcher.say(
      address::extractor, Dispatch{dispatcher.blobs.put(plan_to_json(plan)),
                                   small_run(dispatcher.blobs), 0});
  CHECK(single<OptimizeSubgraph>(sent).expected_gain == 0);
  CHECK(single<OptimizeSubgraph>(sent).options.compile_baseline);
}

TEST_CASE(
    "a second kernel is worth less than the first, and a last look less") {
  RoleFixture<SubgraphAgent> agent;
  OptimizeSubgraph work;
  work.subgraph = "sg";
  work.expected_gain = 600;
  agent.give(address::dispatcher, work);
  const auto begun = only<VerifySeed>(
      agent.give("seeds/compiler",
                 SeedsReply{"sg", "compiler", {seed("a"), seed("b")}, {}, {}}));
  REQUIRE(begun.size() == 2);
  CHECK(begun[0].second.expected_gain == 600);
  CHECK(begun[1].second.expected_gain == 37);
  agent.give("worker/sg.a", correct_result("a", 2));
  const auto sent = agent.give("worker/sg.b", correct_result("b", 3));
  CHECK(single<TimeSeed>(sent).expected_gain == 11);
}

TEST_CASE("the report says where a budget went") {
  Compose compose;
  compose.run.options.budget_ms = 45'000;
  compose.begun_us = 1 * kSecondUs;
  compose.captured_us = 11 * kSecondUs + 449'999;
  compose.searched_us = 25 * kSecondUs;
  CHECK(time_spent(compose, 51 * kSecondUs) ==
        "Time: of the budget of 45 s, 10.4 s went to the capture, 13.5 s to "
        "the search, 26.0 s to checking and timing the module");
}

TEST_CASE("an agent that is done is not told anything") {
  BudgetFixture dispatcher;
  const auto timer = single<TimerRequest>(dispatcher.sent);
  dispatcher.done(dispatcher.id(1));
  CHECK(dispatcher.say(address::clock, TimerFired{timer.effect}).empty());
}

TEST_CASE("what is left when the search's time is over is not begun") {
  BudgetFixture dispatcher;
  dispatcher.now_us = 90 * kSecondUs;
  const auto sent = dispatcher.done(dispatcher.id(1));
  CHECK(only<OptimizeSubgraph>(sent).empty());
  const auto compose = single<Compose>(sent);
  CHECK(compose.ends_us == 100 * kSecondUs);
  CHECK(compose.begun_us == 0);
  CHECK(compose.captured_us == 10 * kSecondUs);
  CHECK(compose.searched_us == 90 * kSecondUs);
  REQUIRE(compose.results.size() == 2);
  CHECK(compose.results[0].outcome == "failed");
  CHECK(compose.results[0].reason.contains("not begun"));
}

TEST_CASE("an agent whose time is over takes the best that was timed") {
  StoppedFixture agent;
  agent.result(correct_result("a", 2));
  const auto stopped = agent.stop();
  CHECK(only<StopSeed>(stopped).front().first == "worker/sg.b");
  CHECK(single<StopSeed>(stopped).cancel);
  CHECK(only<SubgraphDone>(stopped).empty());
  const auto sent = agent.cancelled("b");
  CHECK(only<TimeSeed>(sent).empty());
  const auto done = single<SubgraphDone>(sent);
  CHECK(done.outcome == "won");
  CHECK(done.reason == "time is over");
  CHECK(done.best.seed.id == "a");
  CHECK(agent.result(correct_result("b", 3)).empty());
}

TEST_CASE("a timing that ends soon after the time is over counts") {
  StoppedFixture agent;
  agent.stop();
  CHECK(agent.result(correct_result("a", 2)).empty());
  const auto done = single<SubgraphDone>(agent.cancelled("b"));
  CHECK(done.outcome == "won");
  CHECK(done.best.seed.id == "a");
}

TEST_CASE("a cheat that is named after the time is over is told") {
  StoppedFixture agent;
  agent.stop();
  SeedResult cheat = correct_result("a", 2);
  cheat.timed = cheat.verdict.correct = false;
  cheat.verdict.reason = "it works after its time";
  CHECK(agent.result(cheat).empty());
  const auto done = single<SubgraphDone>(agent.cancelled("b"));
  CHECK(done.outcome == "wrong");
  CHECK(done.reason.contains("it works after its time"));
}

TEST_CASE("an agent whose time is over does not move to another place") {
  StoppedFixture agent({"", "n1"});
  agent.result(correct_result("a", 2));
  agent.stop();
  const auto sent = agent.failed("b", "node_lost");
  CHECK(only<VerifySeed>(sent).empty());
  CHECK(single<SubgraphDone>(sent).best.seed.id == "a");
}

TEST_CASE("what was stopped before the time is over is not waited for") {
  StoppedFixture agent;
  agent.result(correct_result("a", 2));
  const auto sent = agent.failed("b", "node_lost");  // with its last location
  CHECK(only<TimeSeed>(sent).size() == 1);
  CHECK(single<SubgraphDone>(agent.stop()).best.seed.id == "a");
}

TEST_CASE("a last timing that is under way when time is over is stopped") {
  StoppedFixture agent;
  agent.result(correct_result("a", 2));
  CHECK(only<TimeSeed>(agent.result(correct_result("b", 3))).size() == 1);
  const auto sent = agent.stop();
  CHECK(only<StopSeed>(sent).front().first == "worker/sg.b");
  CHECK(single<SubgraphDone>(sent).best.seed.id == "b");
}

TEST_CASE("with nothing judged when time is over, that is the reason") {
  StoppedFixture agent;
  agent.stop();
  CHECK(agent.cancelled("a").empty());
  const auto done = single<SubgraphDone>(agent.cancelled("b"));
  CHECK(done.outcome == "failed");
  CHECK(done.reason == "time is over");
}

TEST_CASE("what only another cut has is searched by what it costs there") {
  Plan plan = uneven_plan();
  const std::string large = plan.subgraphs.at(1).id;
  plan.others = {plan};
  std::erase_if(plan.placements, [&](const Placement& placement) {
    return placement.subgraph == large;
  });
  const SearchShares shares(plan);
  CHECK(plan.subgraphs[shares.order().front()].id == large);
}
