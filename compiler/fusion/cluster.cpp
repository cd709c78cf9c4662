#include "compiler/fusion/cluster.hpp"

#include <algorithm>
#include <map>
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
      : next_(successors(graph)), group_of_(graph.nodes.size()) {
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

  /// Merges the groups of an edge's ends; false where a path leads from one
  /// to the other through a third group, or the result would be too large.
  bool merge(std::size_t producer, std::size_t consumer) {
    const std::size_t from = group_of_[producer];
    const std::size_t to = group_of_[consumer];
    if (from == to) return true;
    if (size_of(from) + size_of(to) > kRegionCallsMax) return false;
    if (has_detour(from, to)) return false;
    for (std::size_t node : members_[to]) group_of_[node] = from;
    members_[from].insert(members_[from].end(), members_[to].begin(),
                          members_[to].end());
    members_[to].clear();
    return true;
  }

 private:
  bool has_detour(std::size_t from, std::size_t to) const {
    std::vector<bool> seen(members_.size(), false);
    std::vector<std::size_t> waiting;
    const auto visit_after = [&](std::size_t group, bool skip_target) {
      for (std::size_t node : members_[group]) {
        for (std::size_t after : next_[node]) {
          const std::size_t reached = group_of_[after];
          if (skip_target && reached == to) continue;
          if (!seen[reached]) waiting.push_back(reached);
          seen[reached] = true;
        }
      }
    };
    seen[from] = true;
    visit_after(from, /*skip_target=*/true);
    while (!waiting.empty()) {
      const std::size_t group = waiting.back();
      waiting.pop_back();
      if (group == to) return true;
      visit_after(group, /*skip_target=*/false);
    }
    return false;
  }

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

std::vector<bool> lowerable_nodes(
    const Graph& graph, const Lowerable& lowerable,
    const std::vector<std::vector<std::size_t>>& before) {
  std::vector<bool> can(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind != NodeKind::call || !returns_tensors(node)) continue;
    if (node.target == "getitem") {
      can[i] = can[before[i].front()];
    } else {
      // Splits stay outside: free there, and their parts keep aliasing.
      can[i] = !is_impure(node.target) && !is_split(node.target) &&
               lowerable(graph, node);
    }
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
                const std::set<std::string>& no_fuse_set) {
  const auto before = predecessors(graph);
  const auto can = lowerable_nodes(graph, lowerable, before);
  auto connects = connecting_nodes(graph, can, before);
  Grouping groups(graph);
  const std::size_t count = graph.nodes.size();

  // A call and the getitems that read it first: they have no other path.
  for (std::size_t i = 0; i < count; ++i) {
    if (can[i] && graph.nodes[i].target == "getitem") {
      groups.merge(before[i].front(), i);
    }
  }
  const auto joins = [&](std::size_t i) {
    return connects[i] && !no_fuse_set.contains(graph.nodes[i].name);
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (!joins(i)) continue;
    for (std::size_t ref : before[i]) {
      if (joins(ref)) groups.merge(ref, i);
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
    if (is_private && groups.merge(i, users.front())) connects[i] = true;
  }

  Regions regions;
  for (std::size_t i = 0; i < count; ++i) {
    regions.region_of.push_back(connects[i]
                                    ? static_cast<int>(groups.group_of(i))
                                    : Regions::kNoRegion);
  }
  return regions;
}

}  // namespace weft
