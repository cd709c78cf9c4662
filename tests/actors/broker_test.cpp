#include "actors/broker.hpp"

#include "tests/actors/bench.hpp"

using namespace weft;

namespace {

LeaseRequest ask(std::uint64_t ticket, int units, std::string group = "g",
                 std::int64_t ttl_ms = 1000) {
  return {ticket, "cpu", units, std::move(group), ttl_ms};
}

struct BrokerBench : Bench<Broker> {
  explicit BrokerBench(int cores = 2, int queue_max = 100) {
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
  BrokerBench broker;
  CHECK(broker.granted(broker.give("a", ask(1, 1))) == Grants{{"a", 1}});
  CHECK(broker.granted(broker.give("b", ask(1, 1))) == Grants{{"b", 1}});
  CHECK(broker.role.in_use("cpu") == 2);
}

TEST_CASE("a request waits until units come back") {
  BrokerBench broker;
  broker.give("a", ask(1, 2));
  CHECK(broker.granted(broker.give("b", ask(1, 1))).empty());
  CHECK(broker.granted(broker.give("a", LeaseReleased{1})) == Grants{{"b", 1}});
}

TEST_CASE("a request for all units is clipped and not overtaken") {
  BrokerBench broker;
  broker.give("a", ask(1, 1));
  CHECK(broker.granted(broker.give("b", ask(1, 1'000'000))).empty());
  CHECK(broker.granted(broker.give("c", ask(1, 1))).empty());
  CHECK(broker.granted(broker.give("a", LeaseReleased{1})) == Grants{{"b", 1}});
  CHECK(broker.role.in_use("cpu") == 2);
  CHECK(broker.granted(broker.give("b", LeaseReleased{1})) == Grants{{"c", 1}});
}

TEST_CASE("who waits for many units is not overtaken by whose turn it was") {
  BrokerBench broker;
  broker.give("a", ask(1, 1, "a"));
  CHECK(broker.granted(broker.give("b", ask(1, 2, "b"))).empty());
  CHECK(broker.granted(broker.give("a", ask(2, 1, "a"))).empty());
  CHECK(broker.granted(broker.give("a", LeaseReleased{1})) == Grants{{"b", 1}});
}

TEST_CASE("turns of a few requests go round the groups") {
  BrokerBench broker(1);
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
  BrokerBench broker(1);
  const auto sent = broker.give("dead", ask(7, 1));
  const auto timer = one<TimerRequest>(sent);
  CHECK(timer.after_ms == 1000);
  broker.give("next", ask(1, 1));
  const auto after = broker.give(address::clock, TimerFired{timer.effect});
  CHECK(one<LeaseExpired>(after).ticket == 7);
  CHECK(broker.granted(after) == Grants{{"next", 1}});
}

TEST_CASE("a timer that fires after the release changes nothing") {
  BrokerBench broker(1);
  const auto timer = one<TimerRequest>(broker.give("a", ask(1, 1)));
  broker.give("a", LeaseReleased{1});
  CHECK(broker.give(address::clock, TimerFired{timer.effect}).empty());
}

TEST_CASE("a release that comes after the expiry gives nothing back twice") {
  BrokerBench broker(1);
  const auto timer = one<TimerRequest>(broker.give("a", ask(1, 1)));
  broker.give(address::clock, TimerFired{timer.effect});
  broker.give("b", ask(1, 1));
  CHECK(broker.give("a", LeaseReleased{1}).empty());
  CHECK(broker.role.in_use("cpu") == 1);
}

TEST_CASE("a full queue denies, and says so") {
  BrokerBench broker(1, 1);
  broker.give("a", ask(1, 1));
  broker.give("b", ask(1, 1));
  const auto denied = one<LeaseDenied>(broker.give("c", ask(5, 1)));
  CHECK(denied.ticket == 5);
  CHECK(denied.reason.find("full") != std::string::npos);
}

TEST_CASE("an unknown resource is denied") {
  BrokerBench broker;
  const auto denied =
      one<LeaseDenied>(broker.give("a", LeaseRequest{1, "moon", 1, "", 10}));
  CHECK(denied.reason.find("moon") != std::string::npos);
}

TEST_CASE("what waits can be given up, and what waits behind it comes next") {
  BrokerBench broker(2);
  broker.give("a", ask(1, 1));
  broker.give("b", ask(1, 2));
  CHECK(broker.granted(broker.give("c", ask(1, 1))).empty());
  CHECK(broker.granted(broker.give("b", LeaseReleased{1})) == Grants{{"c", 1}});
  broker.give("a", LeaseReleased{1});
  CHECK(broker.role.in_use("cpu") == 1);
}
