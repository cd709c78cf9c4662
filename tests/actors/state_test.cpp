// What roles tell of their state.
#include <nlohmann/json.hpp>

#include "actors/broker.hpp"
#include "actors/roster.hpp"
#include "tests/actors/role_fixture.hpp"

using namespace weft;

TEST_CASE("every role tells of its state as an object, also a fresh one") {
  for (const char* address :
       {"broker", "composer", "dispatcher", "extractor", "seeds/compiler",
        "seeds/library", "seeds/llm", "agent/a", "worker/a.b", "test_writer"}) {
    CAPTURE(address);
    const auto role = make_role(address);
    REQUIRE(role);
    CHECK(role->describe().is_object());
  }
}

TEST_CASE("the broker tells who has what and who waits for it") {
  RoleFixture<Broker> fixture;
  fixture.give("extractor", Capacities{{{"cpu", 2}}, 100});
  fixture.give("worker/a", LeaseRequest{1, "cpu", 2, "g", 1000});
  fixture.now_us = 5;
  fixture.give("worker/b", LeaseRequest{9, "cpu", 1, "h", 1000});
  const nlohmann::json state = fixture.role.describe();
  REQUIRE(state["pools"].size() == 1);
  CHECK(state["pools"][0]["used"] == 2);
  CHECK(state["pools"][0]["capacity"] == 2);
  REQUIRE(state["leases"].size() == 1);
  CHECK(state["leases"][0]["holder"] == "worker/a");
  REQUIRE(state["queues"].size() == 1);
  CHECK(state["queues"][0]["holder"] == "worker/b");
  CHECK(state["queues"][0]["ticket"] == 9);
  CHECK(state["queues"][0]["since_us"] == 5);
  fixture.give("worker/a", LeaseReleased{1});
  CHECK(fixture.role.describe()["queues"].empty());
}

TEST_CASE("a worker tells what it waits for") {
  const auto role = make_role("worker/a.b");
  FixtureBlobs blobs;
  Context context(blobs, 0);
  VerifySeed work;
  work.subgraph = "a";
  work.seed.id = "b";
  work.seed.target = "cpu";
  role->receive("agent/a", work, context);
  const nlohmann::json state = role->describe();
  CHECK(state["work"]["seed"]["id"] == "b");
  REQUIRE(state["effects"].size() == 1);
  CHECK(state["effects"][0]["state"] == "waiting");
  CHECK(state["effects"][0]["request"] == "BuildRequest");
}
