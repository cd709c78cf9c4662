#include "actors/broker.hpp"

#include <set>

#include "tests/actors/role_fixture.hpp"

using namespace weft;

namespace {

LeaseRequest ask(std::uint64_t ticket, int units, std::string group = "g",
                 std::int64_t ttl_ms = 1000) {
  return {ticket, "cpu", units, std::move(group), ttl_ms};
}

struct BrokerFixture : RoleFixture<Broker> {
  explicit BrokerFixture(int cores = 2, int queue_max = 100) {
    give("extractor", Capacities{{{"cpu", cores}}, queue_max});
  }
  std::vector<std::pair<Address, std::uint64_t>> granted(
      const std::vector<Outgoing>& sent) {
    std::vector<std::pair<Address, std::uint64_t>> out;
    for (const auto& [to, m] : only<LeaseGranted>(sent)) {
      out.emplace_back(to, m.ticket);
    }
    return out;
  }
};

using Grants = std::vector<std::pair<Address, std::uint64_t>>;

}  // namespace

TEST_CASE("a lease is granted at once while units are free") {
  BrokerFixture broker;
  CHECK(broker.granted(broker.give("a", ask(1, 1))) == Grants{{"a", 1}});
  CHECK(broker.granted(broker.give("b", ask(1, 1))) == Grants{{"b", 1}});
  CHECK(broker.role.in_use("cpu") == 2);
}

TEST_CASE("a request waits until units come back") {
  BrokerFixture broker;
  broker.give("a", ask(1, 2));
  CHECK(broker.granted(broker.give("b", ask(1, 1))).empty());
  CHECK(broker.granted(broker.give("a", LeaseReleased{1})) == Grants{{"b", 1}});
}

TEST_CASE("a request for all units is clipped and not overtaken") {
  BrokerFixture broker;
  broker.give("a", ask(1, 1));
  CHECK(broker.granted(broker.give("b", ask(1, 1'000'000))).empty());
  CHECK(broker.granted(broker.give("c", ask(1, 1))).empty());
  CHECK(broker.granted(broker.give("a", LeaseReleased{1})) == Grants{{"b", 1}});
  CHECK(broker.role.in_use("cpu") == 2);
  CHECK(broker.granted(broker.give("b", LeaseReleased{1})) == Grants{{"c", 1}});
}

TEST_CASE("who waits for many units is not overtaken by whose turn it was") {
  BrokerFixture broker;
  broker.give("a", ask(1, 1, "a"));
  CHECK(broker.granted(broker.give("b", ask(1, 2, "b"))).empty());
  CHECK(broker.granted(broker.give("a", ask(2, 1, "a"))).empty());
  CHECK(broker.granted(broker.give("a", LeaseReleased{1})) == Grants{{"b", 1}});
}

TEST_CASE("turns of a few requests go round the groups") {
  BrokerFixture broker(1);
  broker.give("holder", ask(9, 1));
  for (std::uint64_t i = 1; i <= 6; ++i) broker.give("many", ask(i, 1, "many"));
  broker.give("few", ask(1, 1, "few"));
  Grants order;
  Address holder = "holder";
  std::uint64_t ticket = 9;
  for (int i = 0; i < 7; ++i) {
    const auto next =
        broker.granted(broker.give(holder, LeaseReleased{ticket}));
    REQUIRE(next.size() == 1);
    order.push_back(next.front());
    std::tie(holder, ticket) = next.front();
  }
  CHECK(order == Grants{{"many", 1},
                        {"many", 2},
                        {"many", 3},
                        {"many", 4},
                        {"few", 1},
                        {"many", 5},
                        {"many", 6}});
}

TEST_CASE("a lease that is not given back expires, and its units return") {
  BrokerFixture broker(1);
  const auto sent = broker.give("dead", ask(7, 1));
  const auto timer = single<TimerRequest>(sent);
  CHECK(timer.after_ms == 1000);
  broker.give("next", ask(1, 1));
  const auto after = broker.give(address::clock, TimerFired{timer.effect});
  CHECK(single<LeaseExpired>(after).ticket == 7);
  CHECK(broker.granted(after) == Grants{{"next", 1}});
}

TEST_CASE("a timer that fires after the release changes nothing") {
  BrokerFixture broker(1);
  const auto timer = single<TimerRequest>(broker.give("a", ask(1, 1)));
  broker.give("a", LeaseReleased{1});
  CHECK(broker.give(address::clock, TimerFired{timer.effect}).empty());
}

TEST_CASE("a release that comes after the expiry gives nothing back twice") {
  BrokerFixture broker(1);
  const auto timer = single<TimerRequest>(broker.give("a", ask(1, 1)));
  broker.give(address::clock, TimerFired{timer.effect});
  broker.give("b", ask(1, 1));
  CHECK(broker.give("a", LeaseReleased{1}).empty());
  CHECK(broker.role.in_use("cpu") == 1);
}

TEST_CASE("a full queue denies, and says so") {
  BrokerFixture broker(1, 1);
  broker.give("a", ask(1, 1));
  broker.give("b", ask(1, 1));
  const auto denied = single<LeaseDenied>(broker.give("c", ask(5, 1)));
  CHECK(denied.ticket == 5);
  CHECK(denied.reason.find("full") != std::string::npos);
}

TEST_CASE("an unknown resource is denied") {
  BrokerFixture broker;
  const auto denied =
      single<LeaseDenied>(broker.give("a", LeaseRequest{1, "moon", 1, "", 10}));
  CHECK(denied.reason.find("moon") != std::string::npos);
}

TEST_CASE("what waits can be given up, and what waits behind it comes next") {
  BrokerFixture broker(2);
  broker.give("a", ask(1, 1));
  broker.give("b", ask(1, 2));
  CHECK(broker.granted(broker.give("c", ask(1, 1))).empty());
  CHECK(broker.granted(broker.give("b", LeaseReleased{1})) == Grants{{"c", 1}});
  broker.give("a", LeaseReleased{1});
  CHECK(broker.role.in_use("cpu") == 1);
}

namespace {

/// A head with a grace time, and two devices of 100 bytes.
struct LocationFixture : RoleFixture<Broker> {
  LocationFixture() {
    Capacities head{{{"cpu", 2}, {"disk", 1}}};
    head.grace_ms = 500;
    give("extractor", head);
    device("/GPU-a");
    device("/GPU-b");
  }
  std::vector<Outgoing> device(const Location& location) {
    Capacities offer{{{"gpu", 1}, {"gpu_memory", 100}}};
    offer.location = location;
    return give("extractor", offer);
  }
  std::vector<Outgoing> gone(const Location& location) {
    Capacities offer;
    offer.location = location;
    return give("node/n1", offer);
  }
  LeaseRequest gpu(std::uint64_t ticket, std::vector<Location> locations = {},
                   std::string group = "g") {
    LeaseRequest request{ticket, "gpu", 1, std::move(group), 1000};
    request.locations = std::move(locations);
    return request;
  }
  /// Where it is granted; "nowhere" else.
  Location granted(const std::vector<Outgoing>& sent) {
    const auto grants = only<LeaseGranted>(sent);
    return grants.size() == 1 ? grants.front().second.location : "nowhere";
  }
};

}  // namespace

TEST_CASE("each device has one lease, and whoever needs one gets any") {
  LocationFixture broker;
  CHECK(broker.granted(broker.give("a", broker.gpu(1))) == "/GPU-a");
  CHECK(broker.granted(broker.give("b", broker.gpu(1))) == "/GPU-b");
  CHECK(broker.granted(broker.give("c", broker.gpu(1))) == "nowhere");
  CHECK(broker.granted(broker.give("b", LeaseReleased{1})) == "/GPU-b");
}

TEST_CASE("who waits for one device keeps nobody from another") {
  LocationFixture broker;
  broker.give("a", broker.gpu(1, {"/GPU-a"}, "a"));
  const auto waits = broker.give("b", broker.gpu(1, {"/GPU-a"}, "b"));
  CHECK(broker.granted(waits) == "nowhere");
  CHECK(single<Progress>(waits).stage == "waits");
  CHECK(single<Progress>(waits).text == "for gpu at GPU-a");
  CHECK(broker.granted(broker.give("c", broker.gpu(1, {}, "c"))) == "/GPU-b");
  broker.now_us = 2'500'000;
  const auto sent = broker.give("a", LeaseReleased{1});
  CHECK(broker.granted(sent) == "/GPU-a");
  CHECK(single<Progress>(sent).text == "2.5 s for gpu at GPU-a");
}

TEST_CASE("memory is leased beside the device, and clipped to what there is") {
  LocationFixture broker;
  Capacities shared{{{"gpu", 4}, {"gpu_memory", 100}}};
  shared.location = "/GPU-c";
  broker.give("extractor", shared);
  auto request = broker.gpu(1, {"/GPU-c"});
  request.memory_bytes = 60;
  CHECK(broker.granted(broker.give("a", request)) == "/GPU-c");
  CHECK(broker.role.in_use("gpu_memory", "/GPU-c") == 60);
  CHECK(broker.granted(broker.give("b", request)) == "nowhere");
  broker.give("a", LeaseReleased{1});
  request.memory_bytes = 1'000;
  broker.give("b", LeaseReleased{1});
  CHECK(broker.granted(broker.give("c", request)) == "/GPU-c");
  CHECK(broker.role.in_use("gpu_memory", "/GPU-c") == 100);
}

TEST_CASE("an expired lease's units wait for its holder, but not for ever") {
  LocationFixture broker;
  const auto timer =
      single<TimerRequest>(broker.give("a", broker.gpu(1, {"/GPU-a"})));
  broker.give("b", broker.gpu(1, {"/GPU-a"}));
  const auto expired = broker.give(address::clock, TimerFired{timer.effect});
  CHECK(single<LeaseExpired>(expired).retained);
  CHECK(broker.granted(expired) == "nowhere");
  const auto grace = single<TimerRequest>(expired);
  CHECK(grace.after_ms == 500);

  SUBCASE("given back, they are the next one's") {
    CHECK(broker.granted(broker.give("a", LeaseReleased{1})) == "/GPU-a");
    CHECK(broker.give(address::clock, TimerFired{grace.effect}).empty());
  }
  SUBCASE("not given back, they are so after the grace time") {
    const auto over = broker.give(address::clock, TimerFired{grace.effect});
    CHECK(!single<LeaseExpired>(over).retained);
    CHECK(broker.granted(over) == "/GPU-a");
  }
}

TEST_CASE(
    "with a place that goes, its leases are lost and hopeless waits end") {
  LocationFixture broker;
  broker.give("a", broker.gpu(1, {"/GPU-a"}));
  broker.give("b", broker.gpu(2, {"/GPU-a"}));
  const auto sent = broker.gone("/GPU-a");
  CHECK(single<LeaseLost>(sent).ticket == 1);
  CHECK(single<LeaseLost>(sent).location == "/GPU-a");
  CHECK(single<LeaseDenied>(sent).ticket == 2);
  CHECK(single<LeaseDenied>(sent).location_lost);
  CHECK(single<LeaseDenied>(broker.give("c", broker.gpu(1, {"/GPU-a"})))
            .location_lost);
  // Late words of the lost lease change nothing.
  CHECK(broker.give("a", LeaseReleased{1}).empty());
  broker.device("/GPU-a");
  CHECK(broker.granted(broker.give("c", broker.gpu(2, {"/GPU-a"}))) ==
        "/GPU-a");
}

TEST_CASE("Broker_LosesANode_WithAllItsLocationsAtOnce") {
  LocationFixture broker;
  const Location machine = "n1", device = "n1/GPU-c";
  Capacities cores{{{"cpu", 4}}, 10'000, machine};
  broker.give("node/n1", cores);
  broker.device(device);
  broker.give("a", broker.gpu(1, {device}));
  broker.give("b", broker.gpu(2, {device}));
  LeaseRequest core{3, "cpu", 1, "g"};
  core.locations = {machine};
  CHECK(broker.granted(broker.give("c", core)) == machine);
  const auto sent = broker.give(
      "node/n1", NodeLost{"n1", {machine, device}, "silent for 15 s"});
  std::set<Location> lost;
  for (const auto& [holder, loss] : only<LeaseLost>(sent)) {
    lost.insert(loss.location);
    CHECK(loss.reason == "node n1 is lost: silent for 15 s");
  }
  CHECK(lost == std::set<Location>{machine, device});
  // Who waits for it has no hope, and nobody was granted what is left of it.
  CHECK(single<LeaseDenied>(sent).ticket == 2);
  CHECK(only<LeaseGranted>(sent).empty());
  // The dispatcher hears the same.
  CHECK(single<NodeLost>(sent).locations ==
        std::vector<Location>{machine, device});
  CHECK(broker.role.in_use("cpu", machine) == 0);
  CHECK(broker.role.capacity("gpu", device) == 0);
  // It may come back.
  broker.device(device);
  CHECK(broker.granted(broker.give("d", broker.gpu(4, {device}))) == device);
}

TEST_CASE("a place that leaves takes its leases with it, and nobody's work") {
  LocationFixture broker;
  broker.give("a", broker.gpu(1, {"/GPU-a"}));
  Capacities left{{{"gpu", 0}, {"gpu_memory", 0}}};
  left.location = "/GPU-a";
  const auto sent = broker.give("node/n1", left);
  CHECK(only<LeaseLost>(sent).empty());  // its port says so
  CHECK(single<Capacities>(sent).units.empty());
  CHECK(broker.role.in_use("gpu", "/GPU-a") == 0);
  broker.device("/GPU-a");
  CHECK(broker.give("a", LeaseReleased{1}).empty());
  CHECK(broker.granted(broker.give("b", broker.gpu(2, {"/GPU-a"}))) ==
        "/GPU-a");
}

TEST_CASE("a place to avoid is not granted") {
  LocationFixture broker;
  auto request = broker.gpu(1);
  request.avoid = {"/GPU-a"};
  CHECK(broker.granted(broker.give("a", request)) == "/GPU-b");
}

TEST_CASE("higher priorities go first, within a group and among groups") {
  LocationFixture broker;
  broker.give("a", broker.gpu(1, {"/GPU-a"}));
  broker.give("low", broker.gpu(1, {"/GPU-a"}, "one"));
  auto high = broker.gpu(1, {"/GPU-a"}, "one");
  high.priority = 1;
  broker.give("high", high);
  high.ticket = 2;
  high.group = "two";
  high.priority = 2;
  broker.give("highest", high);
  // "one" waits for units already: it is not overtaken, but inside it is.
  const auto first = only<LeaseGranted>(broker.give("a", LeaseReleased{1}));
  REQUIRE(first.size() == 1);
  CHECK(first.front().first == "high");
  const auto second = only<LeaseGranted>(broker.give("high", LeaseReleased{1}));
  REQUIRE(second.size() == 1);
  CHECK(second.front().first == "highest");
}

TEST_CASE("what came first and is worth less waits for what is worth more") {
  LocationFixture broker;
  broker.give("holder", broker.gpu(1, {"/GPU-a"}));
  for (const std::int64_t expected_gain : {10, 30}) {
    auto request = broker.gpu(1, {"/GPU-a"}, std::to_string(expected_gain));
    request.expected_gain = expected_gain;
    broker.give(std::to_string(expected_gain), request);
  }
  const auto next = only<LeaseGranted>(broker.give("holder", LeaseReleased{1}));
  REQUIRE(next.size() == 1);
  CHECK(next.front().first == "30");
}

TEST_CASE("of one priority, what is worth more goes first") {
  LocationFixture broker;
  broker.give("holder", broker.gpu(1, {"/GPU-a"}));
  broker.give("next", broker.gpu(1, {"/GPU-a"}, "first"));
  const auto ask = [&](const Address& who, const std::string& group,
                       std::int64_t expected_gain, int priority = 0) {
    auto request = broker.gpu(1, {"/GPU-a"}, group);
    request.ticket = 2;
    request.expected_gain = expected_gain;
    request.priority = priority;
    broker.give(who, request);
  };
  ask("cheap", "a", 10);
  ask("dear", "b", 30);
  ask("its second", "b", 15);
  ask("later round", "c", 0, 1);
  std::vector<Address> order;
  const auto release = [&](const Address& who, std::uint64_t ticket) {
    const auto next =
        only<LeaseGranted>(broker.give(who, LeaseReleased{ticket}));
    if (!next.empty()) order.push_back(next.front().first);
  };
  release("holder", 1);
  release("next", 1);
  while (order.size() < 5) release(order.back(), 2);
  CHECK(order == std::vector<Address>{"next", "later round", "dear",
                                      "its second", "cheap"});
}

TEST_CASE("who deals out the subgraphs hears of devices and nodes") {
  LocationFixture broker;
  const auto answer = only<Capacities>(broker.device("/GPU-c"));
  REQUIRE(answer.size() == 1);
  CHECK(answer.front().first == address::dispatcher);
}

namespace {

Capacities node_offer(const Location& location,
                      std::vector<std::string> capabilities, int cores = 1) {
  Capacities offer{{{"cpu", cores}}, 10'000, location};
  offer.capabilities = std::move(capabilities);
  return offer;
}

LeaseRequest ask_for(std::uint64_t ticket, const std::string& capability,
                     std::vector<Location> locations = {},
                     std::int64_t wait_ms = 0) {
  LeaseRequest request = ask(ticket, 1);
  request.capability = capability;
  request.locations = std::move(locations);
  request.wait_ms = wait_ms;
  return request;
}

Location granted_at(const std::vector<Outgoing>& sent) {
  return single<LeaseGranted>(sent).location;
}

}  // namespace

TEST_CASE("a capability is asked of a location that announced it") {
  BrokerFixture broker;
  broker.give("node/n1", node_offer("n1", {"build cpu"}));
  broker.give("node/n2", node_offer("n2", {"capture"}));
  CHECK(granted_at(broker.give("a", ask_for(1, "capture"))) == "n2");
  CHECK(only<LeaseGranted>(broker.give("a", ask_for(2, "capture"))).empty());
  // It says anew what it can do.
  broker.give("node/n1", node_offer("n1", {"capture"}));
  CHECK(broker.role.in_use("cpu", "n1") == 1);
}

TEST_CASE("what a build node can do spares the location that is named") {
  BrokerFixture broker(8);
  broker.give("node/n1", node_offer("n1", {"build cpu"}));
  CHECK(granted_at(broker.give("a", ask_for(1, "build cpu", {""}))) == "n1");
  CHECK(granted_at(broker.give("a", ask_for(2, "build cpu", {""}))) == "");
}

TEST_CASE("who may wait for a node does so, and not for ever") {
  BrokerFixture broker;
  const auto sent = broker.give("a", ask_for(1, "judge", {}, 500));
  CHECK(only<LeaseDenied>(sent).empty());
  const auto timer = single<TimerRequest>(sent);
  CHECK(timer.after_ms == 500);
  SUBCASE("a node comes in time") {
    CHECK(granted_at(broker.give("node/n1", node_offer("n1", {"judge"}))) ==
          "n1");
    // The lease's own timer is another.
    CHECK(broker.give("port/clock", TimerFired{timer.effect}).empty());
  }
  SUBCASE("none comes") {
    const auto denied = single<LeaseDenied>(
        broker.give("port/clock", TimerFired{timer.effect}));
    CHECK(denied.location_lost);
    const auto late = broker.give("node/n1", node_offer("n1", {"judge"}));
    CHECK(only<LeaseGranted>(late).empty());
  }
  SUBCASE("the asker gives it up") {
    broker.give("a", LeaseReleased{1});
    CHECK(broker.give("port/clock", TimerFired{timer.effect}).empty());
  }
}

TEST_CASE("who waits behind others is not denied for want of a node") {
  BrokerFixture broker;
  broker.give("node/n1", node_offer("n1", {"judge"}));
  broker.give("a", ask_for(1, "judge", {}, 500));
  CHECK(only<TimerRequest>(broker.give("b", ask_for(2, "judge", {}, 500)))
            .empty());
  // Its node goes: from here on its time counts.
  const auto gone = broker.give("node/n1", Capacities{{}, 10'000, "n1"});
  CHECK(single<TimerRequest>(gone).after_ms == 500);
}
