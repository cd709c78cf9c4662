// The sharing rule of a fleet.
#include "runtime/bus/fleet_shares.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <ranges>

namespace weft {
namespace {

using Kind = FleetShares::Kind;
using Names = std::vector<std::string>;

TEST_CASE("each run gets a node before any gets a second one") {
  FleetShares shares;
  for (const char* node : {"n1", "n2", "n3"}) shares.join(node, Kind::judge);
  shares.begin_run("a");
  shares.begin_run("b");
  shares.settle();
  CHECK(shares.nodes_of("a") == Names{"n1", "n3"});
  CHECK(shares.nodes_of("b") == Names{"n2"});
}

TEST_CASE("a run that begins takes the newest node of one that has two") {
  FleetShares shares;
  shares.join("n1", Kind::judge);
  shares.join("n2", Kind::judge);
  shares.begin_run("a");
  shares.settle();
  CHECK(shares.nodes_of("a") == Names{"n1", "n2"});
  shares.begin_run("b");
  CHECK(shares.settle() == std::vector<FleetShares::Change>{{"n2", "a", "b"}});
}

TEST_CASE("a run never loses its only node") {
  FleetShares shares;
  shares.join("n1", Kind::judge);
  shares.begin_run("a");
  shares.settle();
  shares.begin_run("b");
  CHECK(shares.settle().empty());
  shares.end_run("a");
  CHECK(shares.settle() == std::vector<FleetShares::Change>{{"n1", "", "b"}});
}

TEST_CASE("a run whose node died comes before problems that wait") {
  FleetShares shares;
  shares.join("n1", Kind::judge);
  shares.join("n2", Kind::judge);
  shares.begin_run("a");
  shares.begin_run("b");
  shares.settle();
  shares.leave("n1");
  shares.reserve(1);
  shares.end_run("b");
  shares.begin_run("c");
  shares.settle();
  CHECK(shares.run_of("n2") == "a");
}

TEST_CASE("a reserved node helps no run") {
  FleetShares shares;
  shares.join("n1", Kind::judge);
  shares.join("n2", Kind::judge);
  shares.begin_run("a");
  shares.reserve(1);
  shares.settle();
  CHECK(shares.nodes_of("a") == Names{"n1"});
  shares.reserve(0);
  shares.settle();
  CHECK(shares.nodes_of("a") == Names{"n1", "n2"});
}

TEST_CASE("builders are shared apart from judges") {
  FleetShares shares;
  shares.join("b1", Kind::builder);
  shares.join("b2", Kind::builder);
  shares.join("n1", Kind::judge);
  shares.join("idle", Kind::unused);
  shares.begin_run("a");
  shares.begin_run("b");
  shares.settle();
  CHECK(shares.run_of("n1") == "a");
  CHECK(shares.run_of("b1") == "a");
  CHECK(shares.run_of("b2") == "b");
  CHECK(shares.run_of("idle").empty());
  CHECK(shares.judges() == 1);
}

/// The rule's promises, after settle().
void check_rule(const FleetShares& shares, const Names& runs,
                const std::map<std::string, Kind>& nodes,
                std::size_t reserved) {
  for (const Kind kind : {Kind::builder, Kind::judge}) {
    std::size_t free = 0;
    std::map<std::string, std::size_t> count;
    for (const std::string& run : runs) count[run] = 0;
    for (const auto& [name, own] : nodes) {
      if (own != kind) continue;
      const std::string& run = shares.run_of(name);
      if (run.empty()) {
        ++free;
      } else {
        REQUIRE(count.contains(run));
        ++count[run];
      }
    }
    if (runs.empty()) continue;
    const auto [least, most] = std::ranges::minmax(count | std::views::values);
    CHECK(most <= least + 1);
    CHECK((free == 0 || least > 0));
    CHECK(free <= (kind == Kind::judge ? reserved : 0));
  }
}

TEST_CASE("whatever comes and goes, shares are fair and nothing lies idle") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 chance(seed);
    const auto pick = [&](std::size_t size) { return chance() % size; };
    FleetShares shares;
    Names runs;
    std::map<std::string, Kind> nodes;
    std::size_t reserved = 0;
    for (int event = 0; event < 200; ++event) {
      switch (pick(6)) {
        case 0:
          runs.push_back("r" + std::to_string(event));
          shares.begin_run(runs.back());
          break;
        case 1:
          if (runs.empty()) break;
          {
            const auto ended =
                runs.begin() + static_cast<int>(pick(runs.size()));
            shares.end_run(*ended);
            runs.erase(ended);
          }
          break;
        case 2:
        case 3: {
          const std::string name = "n" + std::to_string(event);
          nodes[name] = static_cast<Kind>(pick(3));
          shares.join(name, nodes[name]);
          break;
        }
        case 4:
          if (nodes.empty()) break;
          {
            const auto gone =
                std::next(nodes.begin(), static_cast<int>(pick(nodes.size())));
            shares.leave(gone->first);
            nodes.erase(gone);
          }
          break;
        default:
          reserved = pick(3);
          shares.reserve(reserved);
      }
      for (const auto& change : shares.settle()) {
        CHECK(shares.run_of(change.node) == change.to);
      }
      check_rule(shares, runs, nodes, reserved);
      CHECK(shares.settle().empty());
    }
  }
}

}  // namespace
}  // namespace weft
