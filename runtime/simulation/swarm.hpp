// Very many nodes in one thread under a seeded clock: the head's and the nodes'
// side of the wire, the broker and a role with effects are the real ones, links
// and machines are made up. Frames come late and some never; nodes join, die,
// hang, are cut off, leave politely and come back; the head dies and is found
// again. The same seed gives the same story. What must hold is checked at every
// event (invariants.hpp), and each node's credit with it.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

struct SwarmOptions {
  int nodes = 1;
  int pieces = 10;             ///< of work
  int lost_frames = 10;        ///< out of 1,000
  double faults_per_node = 1;  ///< over the first half minute
  int head_deaths = 1;
  bool only_leaves = false;  ///< nodes: no other fault
  int prefetch = 2;          ///< of the head; more than 2 is a fault
  std::int64_t time_max_ms = 3'600'000;
};

struct SwarmEnd {
  std::string problem;  ///< Empty: all invariants held.
  std::uint64_t events = 0;
  int answered = 0;    ///< Answered pieces.
  int given_up = 0;    ///< Pieces that two locations were lost with.
  int joined = 0;      ///< Nodes announced to the broker.
  int nodes_lost = 0;  ///< Nodes lost by silence or replaced.
  int left = 0;        ///< Nodes that announced their end.
  int full = 0;        ///< Pieces that may have filled a node's disk.
  std::uint64_t late = 0;
  std::uint64_t resent = 0;
  std::int64_t took_ms = 0;
};

SwarmEnd simulate_swarm(std::uint64_t seed, const SwarmOptions& options);

}  // namespace weft
