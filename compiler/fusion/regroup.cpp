#include "compiler/fusion/regroup.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "compiler/fusion/partition.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {
namespace {

using Edges = std::vector<std::vector<std::size_t>>;

std::string group_name(int group) {
  return "group " + std::to_string(group + 1);
}

std::unexpected<Error> refused(const std::string& why) {
  return fail(ErrorCode::wrong_input, why);
}

/// The groups' calls as regions, in their order from 0.
class Assigned {
 public:
  explicit Assigned(const Graph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      index_of_[graph.nodes[i].name] = i;
    }
    regions.region_of.assign(graph.nodes.size(), Regions::kNoRegion);
  }

  Result<void> take(const CallGroups& groups) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const int group = static_cast<int>(g);
      if (groups[g].empty()) return refused(group_name(group) + " is empty");
      if (groups[g].size() > kRegionCallsMax) {
        return refused(group_name(group) + " has more than " +
                       std::to_string(kRegionCallsMax) + " calls");
      }
      for (const std::string& name : groups[g]) {
        if (auto taken = take(group, name); !taken) return taken;
      }
    }
    return take_results();
  }

  Regions regions;

 private:
  Result<void> take(int group, const std::string& name) {
    const auto found = index_of_.find(name);
    const bool is_call = found != index_of_.end() &&
                         graph_.nodes[found->second].kind == NodeKind::call;
    if (!is_call) {
      return refused(group_name(group) + " names '" + name +
                     "', which is no call of the model");
    }
    const Node& node = graph_.nodes[found->second];
    int& region = regions.region_of[found->second];
    if (region != Regions::kNoRegion && region != group) {
      return refused("'" + name + "' is in " + group_name(region) + " and in " +
                     group_name(group));
    }
    const bool gives_tensors =
        !node.values.empty() &&
        std::ranges::all_of(
            node.values, [](const auto& value) { return value.has_value(); });
    if (is_impure(node.target) || !gives_tensors) {
      return refused(group_name(group) + " has '" + name + "' (" + node.target +
                     "), for which nobody can write a kernel");
    }
    region = group;
    return {};
  }

  /// What is read of a call with several results goes where the call is.
  Result<void> take_results() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.target != "getitem") continue;
      for_each_ref(node, [&](const std::string& tuple) {
        regions.region_of[i] = regions.region_of[index_of_.at(tuple)];
      });
    }
    return {};
  }

  const Graph& graph_;
  std::map<std::string, std::size_t> index_of_;
};

/// A node outside of the region through which it uses its own results.
std::optional<std::size_t> detour(const Edges& next, const Regions& regions,
                                  int region) {
  std::vector<std::size_t> first(next.size(), next.size());  // way out, by node
  std::deque<std::size_t> open;
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (regions.region_of[i] != region) continue;
    for (const std::size_t user : next[i]) {
      if (regions.region_of[user] == region || first[user] != next.size()) {
        continue;
      }
      first[user] = user;
      open.push_back(user);
    }
  }
  while (!open.empty()) {
    const std::size_t at = open.front();
    open.pop_front();
    for (const std::size_t user : next[at]) {
      if (regions.region_of[user] == region) return first[at];
      if (first[user] != next.size()) continue;
      first[user] = first[at];
      open.push_back(user);
    }
  }
  return std::nullopt;
}

/// Regions each of which waits for the next, and the last for the first, so
/// that no order of them is possible; empty: there is one.
std::set<int> circle(const Edges& next, const Regions& regions) {
  // A node in no region is one of its own, behind the last region.
  const auto group = [&](std::size_t i) {
    const int region = regions.region_of[i];
    return region == Regions::kNoRegion ? -2 - static_cast<int>(i) : region;
  };
  std::map<int, std::set<int>> after, before;
  std::map<int, std::size_t> missing;
  for (std::size_t i = 0; i < next.size(); ++i) {
    missing.try_emplace(group(i), 0);
    for (const std::size_t user : next[i]) {
      if (group(user) == group(i)) continue;
      after[group(i)].insert(group(user));
      before[group(user)].insert(group(i));
    }
  }
  std::vector<int> ready;
  for (auto& [id, count] : missing) {
    count = before[id].size();
    if (count == 0) ready.push_back(id);
  }
  while (!ready.empty()) {
    const int id = ready.back();
    ready.pop_back();
    missing.erase(id);
    for (const int user : after[id]) {
      if (--missing[user] == 0) ready.push_back(user);
    }
  }
  if (missing.empty()) return {};
  // Each that is left waits for another that is left: who follows them comes
  // back. What only waits for a circle is behind it, and no part of it.
  std::vector<int> way = {missing.begin()->first};
  for (;;) {
    const auto& waits_for = before[way.back()];
    const int last = *std::ranges::find_if(
        waits_for, [&](int id) { return missing.contains(id); });
    const auto begin = std::ranges::find(way, last);
    if (begin == way.end()) {
      way.push_back(last);
      continue;
    }
    std::set<int> found(begin, way.end());
    std::erase_if(found, [](int id) { return id < 0; });
    return found;
  }
}

/// The plan's pieces of which no call is taken, as regions from `first` on.
void keep_others(const Plan& plan, Regions& regions, int first) {
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < plan.model.nodes.size(); ++i) {
    index_of[plan.model.nodes[i].name] = i;
  }
  for (const Placement& placement : plan.placements) {
    const bool is_free =
        std::ranges::all_of(placement.nodes, [&](const std::string& name) {
          return regions.region_of[index_of.at(name)] == Regions::kNoRegion;
        });
    if (!is_free) continue;
    for (const std::string& name : placement.nodes) {
      regions.region_of[index_of.at(name)] = first;
    }
    ++first;
  }
}

}  // namespace

Result<Plan> regroup(const Plan& plan, const CallGroups& groups) {
  Assigned assigned(plan.model);
  if (const auto taken = assigned.take(groups); !taken) {
    return std::unexpected(taken.error());
  }
  Regions regions = std::move(assigned.regions);
  const Edges next = successors(plan.model);
  const int count = static_cast<int>(groups.size());
  for (int group = 0; group < count; ++group) {
    const auto outside = detour(next, regions, group);
    if (!outside) continue;
    return refused(group_name(group) +
                   " is not convex: what it computes goes "
                   "through '" +
                   plan.model.nodes[*outside].name +
                   "', which is not in it, and comes back");
  }
  const std::set<int> stuck = circle(next, regions);
  if (!stuck.empty()) {
    std::string names;
    for (const int group : stuck) {
      names += (names.empty() ? "" : " and ") + group_name(group);
    }
    return refused(names + " wait for each other's results");
  }
  keep_others(plan, regions, count);
  // A kept piece that two groups now stand on both sides of goes.
  for (auto still = circle(next, regions); !still.empty();
       still = circle(next, regions)) {
    for (int& region : regions.region_of) {
      if (region >= count && still.contains(region)) {
        region = Regions::kNoRegion;
      }
    }
  }
  Graph model = plan.model;
  drop_trivial_regions(model, regions);
  return plan_of(std::move(model), std::move(regions));
}

}  // namespace weft
