// Groups the calls of a graph into regions that can each run as one kernel.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/choices/fusion_choices.hpp"
#include "compiler/choices/reasons.hpp"
#include "compiler/graph/graph.hpp"

namespace weft {

/// Says whether the compiler can lower a call, and why; asked for calls only,
/// never for getitem (which goes where its call goes).
using Lowerable = std::function<Decision(const Graph&, const Node&)>;

/// Calls that are not fused with others, by name, each with its reason.
using NoFuse = std::map<std::string, std::string>;

/// What the steps of a partition decided, each step what it decides itself.
struct PartitionReasons {
  /// Whether a call may be in a region, by name.
  std::map<std::string, Decision> calls;
  /// Whether a producer was fused with its consumer, by their names.
  std::map<std::pair<std::string, std::string>, Decision> pairs;
};

/// Which region each node of the graph is in: region_of[i] for nodes[i], or
/// kNoRegion. Regions are connected from producer to consumer, and can be run
/// one after the other: contracting each to a point leaves no cycle, which
/// implies that each is convex.
struct Regions {
  static constexpr int kNoRegion = -1;
  std::vector<int> region_of;
  PartitionReasons reasons{};
};

/// Producers join their consumers wherever no cycle comes of it. Views and
/// fills of outside values do not connect (a bias used in two places must not
/// weld these together); they join a region that alone uses them. Calls named
/// in `no_fuse` get a region each.
Regions cluster(const Graph& graph, const Lowerable& lowerable,
                const NoFuse& no_fuse = {});

/// For each node, the nodes that must run after it: those that use it, and,
/// of an impure call, the next one.
std::vector<std::vector<std::size_t>> successors(const Graph& graph);

}  // namespace weft
