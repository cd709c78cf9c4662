#include "actors/library_seeds.hpp"

#include <algorithm>

#include "compiler/graph/graph.hpp"
#include "tests/actors/run_fixture.hpp"

using namespace weft;

namespace {

SeedsRequest request_for(const std::string& target = "cpu") {
  SeedsRequest request;
  request.work.subgraph = "sg";
  request.work.signature = "x0: float32[8]{1}\nreturn x0\n";
  request.work.options.target = target;
  request.work.options.precision = "strict";
  request.work.machine.name = "a processor";
  return request;
}

}  // namespace

TEST_CASE("a kernel that the library knows is one seed, with what is known") {
  RunFixture<LibrarySeeds> role;
  const auto find =
      single<FindKernelRequest>(role.say("agent/sg", request_for()));
  CHECK(find.key.target == "cpu");
  CHECK(find.key.policy == "strict");
  CHECK(find.key.device.contains("a processor"));
  FindKernelReply found{find.effect, {}, {}};
  found.kernel.source = "blob";
  found.kernel.target = "cpu";
  found.kernel.variant = "vec16";
  const auto sent = role.say(address::library, found);
  const auto reply = only<SeedsReply>(sent).at(0);
  CHECK(reply.first == "agent/sg");
  CHECK(reply.second.origin == "library");
  CHECK(reply.second.seeds ==
        std::vector<Seed>{{"library-0", "cpu", "library", "vec16", "blob"}});
  CHECK(reply.second.known == found.kernel);
}

TEST_CASE("what the library does not know gives no seed") {
  RunFixture<LibrarySeeds> role;
  const auto find =
      single<FindKernelRequest>(role.say("agent/sg", request_for()));
  const auto reply = single<SeedsReply>(
      role.say(address::library, FindKernelReply{find.effect, {}, {}}));
  CHECK(reply.seeds.empty());
  CHECK_FALSE(reply.failure);
}

TEST_CASE("a library that cannot be used is noted once") {
  RunFixture<LibrarySeeds> role;
  std::size_t notes = 0;
  for (int i = 0; i < 2; ++i) {
    const auto find =
        single<FindKernelRequest>(role.say("agent/sg", request_for()));
    const auto sent =
        role.say(address::library,
                 FindKernelReply{find.effect, {"failed", "it is damaged"}, {}});
    CHECK(single<SeedsReply>(sent).failure.message == "it is damaged");
    notes += only<Progress>(sent).size();
  }
  CHECK(notes == 1);
}

TEST_CASE("where nothing is timed the library is not asked") {
  RunFixture<LibrarySeeds> role;
  const auto sent = role.say("agent/sg", request_for("triton"));
  CHECK(only<FindKernelRequest>(sent).empty());
  CHECK(single<SeedsReply>(sent).seeds.empty());
}

TEST_CASE("for a model's prompt the library is asked what won elsewhere") {
  RunFixture<LibrarySeeds> role;
  SeedsRequest request = request_for();
  request.work.graph = role.blobs.put(graph_to_json(two_piece_graph()));
  const auto plain = single<FindKernelRequest>(role.say("agent/sg", request));
  CHECK(plain.similar == PatternQuery());
  request.work.options.seeds = {"library", "llm"};
  request.work.options.llm.edition = kPatternsEdition;
  const auto find = single<FindKernelRequest>(role.say("agent/sg", request));
  CHECK(find.similar.platform == "cpu");
  CHECK(std::ranges::find(find.similar.features, "op:mm") !=
        find.similar.features.end());
  FindKernelReply found{find.effect, {}, {}};
  found.patterns.emplace_back().type = "mm+tanh";
  const auto reply = single<SeedsReply>(role.say(address::library, found));
  CHECK(reply.patterns == found.patterns);
  CHECK(reply.seeds.empty());
}
