#include "actors/inductor_seeds.hpp"

#include "compiler/python/inductor.hpp"
#include "tests/actors/run_fixture.hpp"

using namespace weft;

namespace {

SeedsRequest request_for(const std::string& subgraph) {
  SeedsRequest request;
  request.work.subgraph = subgraph;
  request.work.graph = "the graph";
  return request;
}

}  // namespace

TEST_CASE("what Inductor makes of a subgraph is one seed") {
  RunFixture<InductorSeeds> role;
  const auto build =
      single<BuildRequest>(role.say("agent/sg", request_for("sg")));
  CHECK(build.target == kInductorGraph);
  CHECK(build.source == "the graph");
  BuildReply built{build.effect, {}, "", 9};
  built.artefact = "the file";
  const auto reply = only<SeedsReply>(role.say(address::build, built)).at(0);
  CHECK(reply.first == "agent/sg");
  CHECK(reply.second.subgraph == "sg");
  CHECK(reply.second.origin == "inductor");
  REQUIRE(reply.second.seeds.size() == 1);
  const Seed& seed = reply.second.seeds.front();
  CHECK(seed.id == "inductor-0");
  CHECK(seed.target == kInductorTarget);
  CHECK(seed.origin == "inductor");
  CHECK(seed.source == "the file");
}

TEST_CASE(
    "what Inductor cannot compile is no seed, and is told with the reason") {
  RunFixture<InductorSeeds> role;
  const auto build =
      single<BuildRequest>(role.say("agent/sg", request_for("sg")));
  const auto sent = role.say(
      address::build,
      BuildReply{build.effect, {"wrong_input", "it holds constants"}, "", 9});
  const auto reply = single<SeedsReply>(sent);
  CHECK(reply.seeds.empty());
  CHECK(reply.failure.message == "it holds constants");
  CHECK(single<Progress>(sent).text == "it holds constants");
}

TEST_CASE("a build whose file did not come back gives no seed") {
  RunFixture<InductorSeeds> role;
  const auto build =
      single<BuildRequest>(role.say("agent/sg", request_for("sg")));
  const auto reply = single<SeedsReply>(
      role.say(address::build, BuildReply{build.effect, {}, "", 9}));
  CHECK(reply.seeds.empty());
  CHECK(reply.failure);
}

TEST_CASE("each subgraph gets its own answer, in whatever order they come") {
  RunFixture<InductorSeeds> role;
  const auto first =
      single<BuildRequest>(role.say("agent/a", request_for("a")));
  const auto second =
      single<BuildRequest>(role.say("agent/b", request_for("b")));
  for (const auto& [build, subgraph] :
       {std::pair{second, "b"}, std::pair{first, "a"}}) {
    BuildReply built{build.effect, {}, "", 9};
    built.artefact = subgraph;
    const auto reply = only<SeedsReply>(role.say(address::build, built)).at(0);
    CHECK(reply.first == address::agent(subgraph));
    CHECK(reply.second.seeds.front().source == subgraph);
  }
}

TEST_CASE("with limited time it compiles few at once, the dearest first") {
  RunFixture<InductorSeeds> role;
  const auto ask = [&](const std::string& subgraph,
                       std::int64_t expected_gain) {
    SeedsRequest request = request_for(subgraph);
    request.work.options.jobs = 8;
    request.work.expected_gain = expected_gain;
    request.work.graph = subgraph;
    return only<BuildRequest>(role.say("agent/" + subgraph, request));
  };
  const auto first = ask("a", 1);
  REQUIRE(first.size() == 1);
  CHECK(ask("b", 1).size() == 1);
  CHECK(ask("c", 2).empty());
  CHECK(ask("d", 4).empty());
  CHECK(ask("e", 3).empty());
  role.say("agent/d", StopSeed{"its time is over"});
  const auto next = only<BuildRequest>(role.say(
      address::build, BuildReply{first.front().second.effect, {}, "", 9}));
  REQUIRE(next.size() == 1);
  CHECK(next.front().second.source == "e");
  const auto stopped = role.say("agent/e", StopSeed{"its time is over", true});
  CHECK(single<CancelEffect>(stopped).effect == next.front().second.effect);
  CHECK(single<BuildRequest>(stopped).source == "c");
  CHECK(only<SeedsReply>(
            role.say(address::build,
                     BuildReply{
                         next.front().second.effect, {"cancelled", ""}, "", 9}))
            .empty());
}

TEST_CASE("of a device, Inductor compiles at the subgraph's place") {
  RunFixture<InductorSeeds> role;
  SeedsRequest request = request_for("sg");
  request.work.locations = {"n1/GPU-a"};
  request.work.machine.gpus = {Gpu{"a GPU", "sm_90"}};
  const auto sent = role.say("agent/sg", request);
  CHECK(single<BuildRequest>(sent).arch == "sm_90");
  CHECK(single<LeaseRequest>(sent).locations == std::vector<Location>{"n1"});
}
