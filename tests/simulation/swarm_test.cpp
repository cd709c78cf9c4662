// Up to a thousand nodes and the head they join, on lossy links.
#include "runtime/simulation/swarm.hpp"

#include <doctest/doctest.h>

namespace weft {
namespace {

/// All seeds' ends in one; the first problem is told with its seed.
SwarmEnd swarms(int nodes, std::uint64_t seeds) {
  SwarmEnd all;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SwarmOptions options;
    options.nodes = nodes;
    options.pieces = 20 + 3 * nodes;
    options.faults_per_node = nodes == 1 ? 4 : 1;
    const SwarmEnd end = simulate_swarm(seed, options);
    CHECK_MESSAGE(end.problem.empty(), nodes << " nodes, seed " << seed
                                             << ", event " << end.events << ": "
                                             << end.problem);
    CHECK(end.answered + end.given_up == options.pieces);
    all.answered += end.answered;
    all.given_up += end.given_up;
    all.joined += end.joined;
    all.nodes_lost += end.nodes_lost;
    all.left += end.left;
    all.full += end.full;
    all.late += end.late;
    all.resent += end.resent;
  }
  // One in which nothing happens proves little.
  CHECK(all.answered > 10 * all.given_up);
  CHECK(all.joined > nodes);
  CHECK(all.nodes_lost > 0);
  CHECK(all.left > 0);
  CHECK(all.resent > 0);
  return all;
}

TEST_CASE("a node comes and goes, and all work is done once") {
  CHECK(swarms(1, 100).full > 0);
}

TEST_CASE("ten nodes come and go, and all work is done once") {
  CHECK(swarms(10, 30).late > 0);
}

TEST_CASE("a hundred nodes come and go, and all work is done once") {
  swarms(100, 3);
}

TEST_CASE("a thousand nodes come and go, and all work is done once") {
  swarms(1'000, 1);
}

TEST_CASE("a node that leaves in peace is never taken for one that went down") {
  int left = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SwarmOptions options;
    options.nodes = 10;
    options.pieces = 100;
    options.faults_per_node = 18;
    options.only_leaves = true;
    const SwarmEnd end = simulate_swarm(seed, options);
    CAPTURE(seed);
    CHECK(end.problem == "");
    CHECK(end.nodes_lost == 0);
    CHECK(end.given_up == 0);
    left += end.left;
  }
  CHECK(left > 5'000);
}

TEST_CASE("the same seed tells the same story of a swarm") {
  SwarmOptions options;
  options.nodes = 10;
  const SwarmEnd swarm_end = simulate_swarm(7, options);
  const SwarmEnd other = simulate_swarm(7, options);
  CHECK(swarm_end.events == other.events);
  CHECK(swarm_end.took_ms == other.took_ms);
  CHECK(simulate_swarm(8, options).events != swarm_end.events);
}

TEST_CASE("a head that sends a node more than it has credit for gets caught") {
  SwarmOptions options;
  options.nodes = 2;
  options.pieces = 100;
  options.prefetch = 20;
  std::string problem;
  for (std::uint64_t seed = 0; seed < 20 && problem.empty(); ++seed) {
    problem = simulate_swarm(seed, options).problem;
  }
  CHECK_MESSAGE(problem.contains("was sent"), problem);
}

}  // namespace
}  // namespace weft
