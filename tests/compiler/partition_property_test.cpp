// Whatever the graph: regions are convex, connected, complete and ordered.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "compiler/fusion/partition.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/passes/passes.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

using Index = std::size_t;

bool no_products(const Graph&, const Node& call) {
  return call.target.find("mm") == std::string::npos;
}

Graph random_graph(unsigned seed) {
  std::mt19937 random(seed);  // its sequence is fixed by the standard
  const auto below = [&](unsigned limit) { return random() % limit; };
  const TensorType type = dense({4, 4});
  GraphBuilder b;
  std::vector<std::string> names;
  for (unsigned i = 0; i < 1 + below(3); ++i) {
    names.push_back("in" + std::to_string(i));
    b.input(names.back(), type);
  }
  const unsigned calls = 2 + below(40);
  for (unsigned i = 0; i < calls; ++i) {
    // Recent values are used more, as in a model.
    const auto pick = [&] {
      const unsigned reach = below(2) ? 4 : names.size();
      const unsigned back = below(std::min<unsigned>(reach, names.size()));
      return names[names.size() - 1 - back];
    };
    const std::string name = "n" + std::to_string(i);
    switch (below(10)) {
      case 0:
      case 1:
        b.call(name, "mm", {pick(), pick()}, type);
        break;
      case 2:
      case 3:
        b.call(name, "view", {pick()}, type);
        break;
      case 4:
        b.call(name, "rand_like", {pick()}, type);
        break;
      case 5:
        b.tuple(name, "var_mean", {pick()}, {type, type});
        b.getitem(name + "_0", name, 0).getitem(name + "_1", name, 1);
        names.push_back(name + "_0");
        names.push_back(name + "_1");
        continue;
      case 6:
        b.call(name, "relu", {pick()}, type);
        break;
      default:
        b.call(name, "add", {pick(), pick()}, type);
    }
    names.push_back(name);
  }
  b.outputs({names.back(), names[names.size() / 2]});
  return eliminate_dead_code(b.graph);
}

std::map<std::string, int> placement_of(const Plan& plan) {
  std::map<std::string, int> of;
  for (Index p = 0; p < plan.placements.size(); ++p) {
    for (const auto& node : plan.placements[p].nodes) {
      REQUIRE(of.emplace(node, static_cast<int>(p)).second);
    }
  }
  return of;
}

/// Runs the plan as the composer does; everything must be there in time.
void check_runs(const Plan& plan) {
  const auto of = placement_of(plan);
  std::set<std::string> known;
  std::set<int> done;
  for (const Node& node : plan.model.nodes) {
    const auto at = of.find(node.name);
    if (at == of.end()) {
      for_each_ref(
          node, [&](const std::string& name) { CHECK(known.contains(name)); });
      known.insert(node.name);
      continue;
    }
    if (!done.insert(at->second).second) continue;
    const Placement& placement = plan.placements[at->second];
    CHECK(placement.nodes.front() == node.name);
    for (const auto& name : placement.inputs) CHECK(known.contains(name));
    CHECK_FALSE(placement.outputs.empty());
    known.insert(placement.outputs.begin(), placement.outputs.end());
  }
  for (const auto& name : plan.model.outputs) CHECK(known.contains(name));
}

/// No path leaves a placement and comes back.
void check_convex(const Plan& plan) {
  const auto of = placement_of(plan);
  for (Index p = 0; p < plan.placements.size(); ++p) {
    std::set<std::string> downstream;  // outside, but fed by the placement
    for (const Node& node : plan.model.nodes) {
      const auto at = of.find(node.name);
      const bool inside = at != of.end() && at->second == static_cast<int>(p);
      for_each_ref(node, [&](const std::string& name) {
        const auto from = of.find(name);
        const bool fed =
            from != of.end() && from->second == static_cast<int>(p);
        if (inside) {
          CHECK_FALSE(downstream.contains(name));
        } else if (fed || downstream.contains(name)) {
          downstream.insert(node.name);
        }
      });
    }
  }
}

/// Every call of a placement is tied to its others by producer and consumer.
void check_connected(const Plan& plan) {
  for (const Placement& placement : plan.placements) {
    std::set<std::string> reached{placement.nodes.front()};
    for (bool grown = true; grown;) {
      grown = false;
      for (const auto& name : placement.nodes) {
        for_each_ref(*plan.model.find(name), [&](const std::string& ref) {
          if (std::ranges::find(placement.nodes, ref) ==
              placement.nodes.end()) {
            return;
          }
          if (reached.contains(name) == reached.contains(ref)) return;
          reached.insert({name, ref});
          grown = true;
        });
      }
    }
    CHECK(reached.size() == placement.nodes.size());
  }
}

std::vector<std::string> draws(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) {
    if (node.target == "aten.rand_like.default") names.push_back(node.name);
  }
  return names;
}

/// Each pair of neighbours has a reason, and the decision is the plan's.
void check_reasons(const Plan& plan) {
  std::map<std::string, const Placement*> placement_of;
  for (const Placement& placement : plan.placements) {
    for (const std::string& name : placement.nodes) {
      placement_of[name] = &placement;
    }
  }
  for (const FusionReason& pair : plan.fusion_reasons) {
    CAPTURE(pair.producer);
    CAPTURE(pair.consumer);
    CHECK_FALSE(pair.reason.empty());
    CHECK(pair.is_fused ==
          (placement_of.contains(pair.producer) &&
           placement_of.contains(pair.consumer) &&
           placement_of[pair.producer] == placement_of[pair.consumer]));
  }
}

TEST_CASE("regions of random graphs are convex, connected and in order") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const Graph graph = random_graph(seed);
    REQUIRE(check_graph(graph));
    const Plan plan = partition(graph, no_products);
    REQUIRE(check_graph(plan.model));
    check_runs(plan);
    check_convex(plan);
    check_connected(plan);
    CHECK(draws(plan.model) == draws(graph));
    check_reasons(plan);
    CHECK(plan_to_json(plan) == plan_to_json(partition(graph, no_products)));
  }
}

TEST_CASE("each subgraph repeats the calls of its placements") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const Plan plan = partition(random_graph(seed), no_products);
    std::map<std::string, const Subgraph*> by_id;
    for (const Subgraph& subgraph : plan.subgraphs) {
      CHECK(by_id.emplace(subgraph.id, &subgraph).second);
    }
    for (const Placement& placement : plan.placements) {
      const Graph& piece = by_id.at(placement.subgraph)->graph;
      REQUIRE(piece.nodes.size() ==
              placement.inputs.size() + placement.nodes.size());
      CHECK(piece.outputs.size() == placement.outputs.size());
      for (Index i = 0; i < placement.nodes.size(); ++i) {
        CHECK(piece.nodes[placement.inputs.size() + i].target ==
              plan.model.find(placement.nodes[i])->target);
      }
    }
  }
}

}  // namespace
}  // namespace weft
