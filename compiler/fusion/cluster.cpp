#include "compiler/fusion/cluster.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {

namespace {

/// The graph with every node in a group of its own at first; groups merge as
/// long as the graph of groups stays free of cycles.
class Grouping {
 public:
  explicit Grouping(const Graph& graph)
      : graph_(graph), next_(successors(graph)), group_of_(graph.nodes.size()) {
    for (std::size_t i = 0; i < group_of_.size(); ++i) {
      group_of_[i] = i;
      members_.push_back({i});
    }
  }

  const std::vector<std::vector<std::size_t>>& next() const { return next_; }
  std::size_t group_of(std::size_t node) const { return group_of_[node]; }
  std::size_t size_of(std::size_t group) const {
    return members_[group].size();
  }

  /// Merges the groups of an edge's ends. Not where a path leads from one to
  /// the other through a third group, or the result would be too large.
  Decision merge(std::size_t producer, std::size_t consumer) {
    const std::size_t from = group_of_[producer];
    const std::size_t to = group_of_[consumer];
    if (from == to) return {true, "other calls joined both to one subgraph"};
    if (size_of(from) + size_of(to) > kRegionCallsMax) {
      return {false, "together the two subgraphs would have more than " +
                         std::to_string(kRegionCallsMax) + " calls"};
    }
    if (const auto via = detour(from, to)) {
      return {false, "a path between them leaves the subgraph: through " +
                         graph_.nodes[*via].name +
                         ", which would have to run in the middle of it"};
    }
    for (std::size_t node : members_[to]) group_of_[node] = from;
    members_[from].insert(members_[from].end(), members_[to].begin(),
                          members_[to].end());
    members_[to].clear();
    return {true,
            "the consumer reads what the producer computes, and no path "
            "between them leaves the subgraph"};
  }

 private:
  /// A node of a third group on a path from one group to the other.
  std::optional<std::size_t> detour(std::size_t from, std::size_t to) const {
    std::vector<bool> seen(members_.size(), false);
    std::vector<std::size_t> waiting;
    std::size_t before_target = 0;
    const auto visit_after = [&](std::size_t group, bool skip_target) {
      for (std::size_t node : members_[group]) {
        for (std::size_t after : next_[node]) {
          const std::size_t reached = group_of_[after];
          if (skip_target && reached == to) continue;
          if (!seen[reached]) {
            waiting.push_back(reached);
            if (reached == to) before_target = node;
          }
          seen[reached] = true;
        }
      }
    };
    seen[from] = true;
    visit_after(from, /*skip_target=*/true);
    while (!waiting.empty()) {
      const std::size_t group = waiting.back();
      waiting.pop_back();
      if (group == to) return before_target;
      visit_after(group, /*skip_target=*/false);
    }
    return {};
  }

  const Graph& graph_;
  std::vector<std::vector<std::size_t>> next_;
  std::vector<std::size_t> group_of_;
  std::vector<std::vector<std::size_t>> members_;
};

std::map<std::string, std::size_t> index_by_name(const Graph& graph) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    index[graph.nodes[i].name] = i;
  }
  return index;
}

/// The nodes that each node's arguments mention, each once, in order.
std::vector<std::vector<std::size_t>> predecessors(const Graph& graph) {
  const auto index = index_by_name(graph);
  std::vector<std::vector<std::size_t>> before(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for_each_ref(graph.nodes[i], [&](const std::string& name) {
      const std::size_t ref = index.at(name);
      if (std::ranges::find(before[i], ref) == before[i].end()) {
        before[i].push_back(ref);
      }
    });
  }
  return before;
}

bool returns_tensors(const Node& node) {
  return !node.values.empty() &&
         std::ranges::all_of(
             node.values, [](const auto& value) { return value.has_value(); });
}

Decision is_lowerable(const Graph& graph, const Lowerable& lowerable,
                      const Node& call) {
  if (!returns_tensors(call)) return {false, "it returns no tensors"};
  if (is_impure(call.target)) {
    return {false, "it draws random numbers or changes its input"};
  }
  // Splits stay outside: free there, and their parts keep aliasing.
  if (is_split(call.target)) {
    return {false, "it splits a tensor, which costs PyTorch nothing"};
  }
  return lowerable(graph, call);
}

std::vector<bool> lowerable_nodes(
    const Graph& graph, const Lowerable& lowerable,
    const std::vector<std::vector<std::size_t>>& before,
    PartitionReasons& reasons) {
  std::vector<bool> can(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind != NodeKind::call) continue;
    Decision decision;
    if (node.target != "getitem") {
      decision = is_lowerable(graph, lowerable, node);
    } else if (returns_tensors(node)) {
      const std::size_t tuple = before[i].front();
      decision = true;
      if (!can[tuple]) {
        decision = {false, "it reads a result of " + graph.nodes[tuple].name +
                               ", which stays PyTorch's"};
      }
    }
    can[i] = decision;
    reasons.calls[node.name] = std::move(decision);
  }
  return can;
}

/// Lowerable nodes that tie a region together: work, and views of work.
std::vector<bool> connecting_nodes(
    const Graph& graph, const std::vector<bool>& can,
    const std::vector<std::vector<std::size_t>>& before) {
  std::vector<bool> connects(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!can[i] || is_fill(graph.nodes[i].target)) continue;
    connects[i] = !is_view(graph.nodes[i].target) ||
                  std::ranges::any_of(before[i], [&](std::size_t ref) {
                    return connects[ref];
                  });
  }
  return connects;
}

/// Nodes whose value the caller of the model sees.
std::set<std::string> visible_nodes(const Graph& graph) {
  std::set<std::string> visible(graph.outputs.begin(), graph.outputs.end());
  for (const Mutation& mutation : graph.mutations) {
    visible.insert(mutation.node);
  }
  return visible;
}

}  // namespace

std::vector<std::vector<std::size_t>> successors(const Graph& graph) {
  const auto before = predecessors(graph);
  std::vector<std::vector<std::size_t>> next(graph.nodes.size());
  std::optional<std::size_t> last_impure;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (std::size_t ref : before[i]) next[ref].push_back(i);
    const Node& node = graph.nodes[i];
    if (node.kind != NodeKind::call || !is_impure(node.target)) continue;
    if (last_impure) next[*last_impure].push_back(i);
    last_impure = i;
  }
  return next;
}

Regions cluster(const Graph& graph, const Lowerable& lowerable,
                const NoFuse& no_fuse) {
  Regions regions;
  const auto before = predecessors(graph);
  const auto can = lowerable_nodes(graph, lowerable, before, regions.reasons);
  auto connects = connecting_nodes(graph, can, before);
  Grouping groups(graph);
  const std::size_t count = graph.nodes.size();
  const auto decided = [&](std::size_t producer,
                           std::size_t consumer) -> Decision& {
    return regions.reasons
        .pairs[{graph.nodes[producer].name, graph.nodes[consumer].name}];
  };

  // A call and the getitems that read it first: they have no other path.
  for (std::size_t i = 0; i < count; ++i) {
    if (can[i] && graph.nodes[i].target == "getitem") {
      groups.merge(before[i].front(), i);
      decided(before[i].front(), i) = {
          true, "the consumer is one of the producer's results"};
    }
  }
  const auto joins = [&](std::size_t i) -> Decision {
    const Node& node = graph.nodes[i];
    if (!connects[i]) {
      return {false, node.name +
                         " is a view or fill of outside values, which "
                         "joins a subgraph that alone uses it"};
    }
    const auto apart = no_fuse.find(node.name);
    if (apart == no_fuse.end()) return true;
    return {false, node.name + " " + apart->second};
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (!can[i]) continue;
    const Decision consumer = joins(i);
    for (std::size_t ref : before[i]) {
      if (!can[ref] || graph.nodes[i].target == "getitem") continue;
      const Decision producer = joins(ref);
      decided(ref, i) = !consumer   ? consumer
                        : !producer ? producer
                                    : groups.merge(ref, i);
    }
  }

  // Views and fills of outside values: where one region alone uses them.
  const auto visible = visible_nodes(graph);
  for (std::size_t i = count; i-- > 0;) {
    const auto& users = groups.next()[i];
    if (!can[i] || connects[i] || users.empty()) continue;
    if (visible.contains(graph.nodes[i].name)) continue;
    const bool is_private = std::ranges::all_of(users, [&](std::size_t user) {
      return connects[user] &&
             groups.group_of(user) == groups.group_of(users.front());
    });
    if (!is_private || !groups.merge(i, users.front())) {
      continue;
    }
    connects[i] = true;
    for (const std::size_t user : users) {
      decided(i, user) = {true, "this subgraph alone uses the view or fill"};
    }
  }

  for (std::size_t i = 0; i < count; ++i) {
    if (can[i] && !connects[i]) {
      regions.reasons.calls[graph.nodes[i].name] = {
          false, "it is a view or fill whose value no subgraph alone uses"};
    }
    regions.region_of.push_back(connects[i]
                                    ? static_cast<int>(groups.group_of(i))
                                    : Regions::kNoRegion);
  }
  return regions;
}

}  // namespace weft
