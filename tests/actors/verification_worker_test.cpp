#include "actors/verification_worker.hpp"

#include "compiler/graph/graph.hpp"
#include "compiler/python/inductor.hpp"
#include "tests/actors/role_fixture.hpp"
#include "tests/compiler/graph_builder.hpp"

using namespace weft;

namespace {

/// A worker whose leases are granted at once.
struct WorkerFixture : RoleFixture<VerificationWorker> {
  std::vector<Outgoing> say(const Address& from, Message message) {
    auto sent = give(from, std::move(message));
    const auto leases = only<LeaseRequest>(sent);
    if (leases.empty()) return sent;
    units = leases.back().second.units;
    resource = leases.back().second.resource;
    return give(address::broker, LeaseGranted{leases.back().second.ticket});
  }
  std::vector<Outgoing> begin() {
    VerifySeed work;
    work.subgraph = "sg";
    work.graph = graph;
    work.seed.id = "compiler-0";
    work.seed.source = "source";
    work.seed.target = seed_target;
    work.options.target = target;
    work.options.no_extern = no_extern;
    work.options.dynamic_batch = dynamic_batch;
    work.machine.gpus = gpus;
    work.thorough = thorough;
    return say("agent/sg", work);
  }
  /// Up to the point where the seed is being timed.
  TimeRequest until_timing() {
    const auto build = single<BuildRequest>(begin());
    const auto check = single<CheckRequest>(
        say(address::build, BuildReply{build.effect, {}, "", 1}));
    CheckReply check_reply;
    check_reply.effect = check.effect;
    check_reply.verdict.correct = true;
    return single<TimeRequest>(say(address::verify, check_reply));
  }
  int units = 0;
  std::string resource;
  std::string target = "cpu";
  std::string seed_target;
  std::string graph = "graph";
  bool no_extern = false;
  bool dynamic_batch = false;
  bool thorough = false;
  std::vector<Gpu> gpus;
};

}  // namespace

TEST_CASE("a right seed is built, checked, timed and reported") {
  WorkerFixture worker;
  const auto timing = worker.until_timing();
  CHECK(worker.units == kAllUnits);
  TimeReply reply;
  reply.effect = timing.effect;
  reply.timing.candidate.median_us = 5;
  const auto sent = worker.say(address::verify, reply);
  const auto result = single<SeedResult>(sent);
  CHECK(result.built);
  CHECK(result.timed);
  CHECK(result.timing.candidate.median_us == 5);
  CHECK(only<SeedResult>(sent).front().first == "agent/sg");
}

TEST_CASE("a seed that is timed thoroughly is timed as the best one is") {
  WorkerFixture worker;
  worker.thorough = true;
  const auto timing = worker.until_timing();
  CHECK(timing.with_compile);
  CHECK(timing.budget_ms == RunOptions().final_timing_ms);
}

TEST_CASE("a seed that does not build is not checked") {
  WorkerFixture worker;
  const auto build = single<BuildRequest>(worker.begin());
  const auto result = single<SeedResult>(worker.say(
      address::build,
      BuildReply{build.effect, {"wrong_input", "no ';'"}, "log", 1}));
  CHECK(!result.built);
  CHECK(result.verdict.kind == "not_built");
  CHECK(result.build_log == "log");
  CHECK(!result.failure);
}

TEST_CASE("a wrong seed is not timed") {
  WorkerFixture worker;
  const auto build = single<BuildRequest>(worker.begin());
  const auto check = single<CheckRequest>(
      worker.say(address::build, BuildReply{build.effect, {}, "", 1}));
  CheckReply wrong;
  wrong.effect = check.effect;
  wrong.verdict.kind = "wrong";
  const auto result = single<SeedResult>(worker.say(address::verify, wrong));
  CHECK(!result.timed);
  CHECK(result.verdict.kind == "wrong");
}

TEST_CASE("a seed for any batch is checked at several, and rejected at one") {
  WorkerFixture worker;
  worker.dynamic_batch = true;
  Graph graph = GraphBuilder().input("x", dense({64, 3})).outputs({"x"}).graph;
  graph.symbolic_shapes = {{64}, {{"/nodes/0/values/0/shape/0", {1}}}};
  worker.graph = worker.blobs.put(graph_to_json(graph));
  const auto build = single<BuildRequest>(worker.begin());
  auto check = single<CheckRequest>(
      worker.say(address::build, BuildReply{build.effect, {}, "", 1}));
  CHECK(check.subject.against == worker.graph);
  CheckReply reply;
  reply.verdict.correct = true;
  reply.verdict.cases = 7;
  for (const Sizes& sizes : judged_sizes({64})) {
    reply.effect = check.effect;
    check = single<CheckRequest>(worker.say(address::verify, reply));
    const auto text = worker.blobs.get(check.subject.against);
    REQUIRE(text.has_value());
    CHECK(parse_graph(*text)->nodes[0].values[0]->shape[0] == sizes[0]);
  }
  SUBCASE("right at all of them") {
    reply.effect = check.effect;
    reply.verdict.cases = 2;
    const auto timing = single<TimeRequest>(worker.say(address::verify, reply));
    CHECK(timing.subject.against == worker.graph);
  }
  SUBCASE("wrong at the last") {
    reply.effect = check.effect;
    reply.verdict = {};
    reply.verdict.kind = "wrong";
    reply.verdict.reason = "output 0";
    const auto result = single<SeedResult>(worker.say(address::verify, reply));
    CHECK(!result.timed);
    CHECK(!result.verdict.correct);
    CHECK(result.verdict.reason == "at the size 144: output 0");
  }
}

TEST_CASE("a seed for any batch is rejected where there is no such graph") {
  WorkerFixture worker;
  worker.dynamic_batch = true;
  Graph graph = GraphBuilder().input("x", dense({62, 3})).outputs({"x"}).graph;
  graph.symbolic_shapes = {
      {64}, {{"/nodes/0/values/0/shape/0", {1}}}};  // less two rows
  worker.graph = worker.blobs.put(graph_to_json(graph));
  const auto build = single<BuildRequest>(worker.begin());
  const auto check = single<CheckRequest>(
      worker.say(address::build, BuildReply{build.effect, {}, "", 1}));
  CheckReply check_reply;
  check_reply.effect = check.effect;
  check_reply.verdict.correct = true;
  const auto result =
      single<SeedResult>(worker.say(address::verify, check_reply));
  CHECK(!result.verdict.correct);
  CHECK(result.verdict.kind == "wrong");
  CHECK(result.verdict.reason.starts_with("at the size 1: "));
}

TEST_CASE("a port that fails is asked once more, then the seed is given up") {
  WorkerFixture worker;
  const auto build = single<BuildRequest>(worker.begin());
  const auto again = single<BuildRequest>(worker.say(
      address::build, BuildReply{build.effect, {"failed", "lost"}, "", 1}));
  CHECK(again.effect != build.effect);
  const auto result = single<SeedResult>(worker.say(
      address::build, BuildReply{again.effect, {"failed", "lost"}, "", 1}));
  CHECK(result.failure.code == "failed");
}

TEST_CASE("a port that never answers counts as failed") {
  WorkerFixture worker;
  const auto build = single<BuildRequest>(worker.begin());
  const auto again = single<BuildRequest>(
      worker.say(address::broker, LeaseExpired{build.effect}));
  const auto result = single<SeedResult>(
      worker.say(address::broker, LeaseExpired{again.effect}));
  CHECK(result.failure.code == "expired");
}

TEST_CASE("a seed that cheats in a timed call is not right any more") {
  WorkerFixture worker;
  const auto timing = worker.until_timing();
  TimeReply reply;
  reply.effect = timing.effect;
  reply.rejected = "wrong in a timed call";
  const auto result = single<SeedResult>(worker.say(address::verify, reply));
  CHECK(!result.verdict.correct);
  CHECK(result.verdict.kind == "cheated");
  CHECK(!result.timed);
}

TEST_CASE("asked again, it times beside torch.compile") {
  WorkerFixture worker;
  const auto timing = worker.until_timing();
  TimeReply reply;
  reply.effect = timing.effect;
  worker.say(address::verify, reply);
  const auto again =
      single<TimeRequest>(worker.say("agent/sg", TimeSeed{4000, true}));
  CHECK(again.with_compile);
  CHECK(again.budget_ms == 4000);
}

TEST_CASE("with a GPU, builds lease the processor and calls the GPU") {
  WorkerFixture worker;
  worker.target = "triton";
  worker.gpus = {Gpu{}};
  const auto build = single<BuildRequest>(worker.begin());
  CHECK(worker.resource == "cpu");
  const auto check = single<CheckRequest>(
      worker.say(address::build, BuildReply{build.effect, {}, "", 1}));
  CHECK(worker.resource == "gpu");
  CHECK(worker.units == 1);
  CheckReply check_reply;
  check_reply.effect = check.effect;
  check_reply.verdict.correct = true;
  single<TimeRequest>(worker.say(address::verify, check_reply));
  CHECK(worker.resource == "gpu");
  CHECK(worker.units == kAllUnits);
}

TEST_CASE("a kernel for a GPU that is not there is proven and not timed") {
  WorkerFixture worker;
  worker.target = "triton";
  const auto build = single<BuildRequest>(worker.begin());
  const auto check = single<CheckRequest>(
      worker.say(address::build, BuildReply{build.effect, {}, "", 1}));
  CHECK(worker.resource == "cpu");
  CheckReply check_reply;
  check_reply.effect = check.effect;
  check_reply.verdict.correct = true;
  const auto result =
      single<SeedResult>(worker.say(address::verify, check_reply));
  CHECK(result.verdict.correct);
  CHECK(!result.timed);
}

TEST_CASE("a stopped seed goes no further and gives its lease back") {
  WorkerFixture worker;
  const auto build = single<BuildRequest>(worker.begin());
  CHECK(worker.give("agent/sg", StopSeed{"enough"}).empty());
  const auto sent =
      worker.give(address::build, BuildReply{build.effect, {}, "", 1});
  CHECK(single<LeaseReleased>(sent).ticket == build.effect);
  CHECK(sent.size() == 1);
}

TEST_CASE("a cancelled seed that is not being timed answers at once") {
  WorkerFixture worker;
  const auto build = single<BuildRequest>(worker.begin());
  const auto sent = worker.give("agent/sg", StopSeed{"enough", true});
  CHECK(single<CancelEffect>(sent).effect == build.effect);
  const auto result = single<SeedResult>(sent);
  CHECK(result.failure.code == "cancelled");
  CHECK(result.failure.message == "enough");
  CHECK(worker.give("agent/sg", StopSeed{"enough", true}).empty());
  const auto ended =
      worker.give(address::build, BuildReply{build.effect, {}, "", 1});
  CHECK(single<LeaseReleased>(ended).ticket == build.effect);
  CHECK(ended.size() == 1);
}

TEST_CASE("a timing that is cancelled is told of when it ends") {
  for (const bool ends : {true, false}) {
    WorkerFixture worker;
    const auto time = worker.until_timing();
    const auto sent = worker.give("agent/sg", StopSeed{"enough", true});
    CHECK(single<CancelEffect>(sent).effect == time.effect);
    CHECK(only<SeedResult>(sent).empty());
    TimeReply reply;
    reply.effect = time.effect;
    reply.timing.candidate = {50, 49, 51, 9};
    if (!ends) reply.failure = {"cancelled", "the asker did not want it"};
    const auto result = single<SeedResult>(worker.say(address::verify, reply));
    CHECK(result.timed == ends);
    CHECK(result.verdict.correct);
    CHECK(result.failure.code == (ends ? "" : "cancelled"));
  }
}

TEST_CASE("with --no-extern Inductor's file is built to call no operators") {
  for (const bool no_extern : {false, true}) {
    for (const std::string target : {"inductor", "cpu", "python"}) {
      WorkerFixture worker;
      worker.seed_target = target;
      worker.no_extern = no_extern;
      const auto build = single<BuildRequest>(worker.begin());
      const bool is_strict = no_extern && target == kInductorTarget;
      CHECK(build.target == (is_strict ? std::string(kInductorOwn) : target));
      // What is verified is called as any file of Inductor's.
      const auto check = single<CheckRequest>(
          worker.say(address::build, BuildReply{build.effect, {}, "", 1}));
      CHECK(check.subject.target == target);
    }
  }
}
