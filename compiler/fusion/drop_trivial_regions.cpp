#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "compiler/fusion/partition.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {

namespace {

/// Who uses a node, as seen from its region.
struct Uses {
  bool inside = false;
  bool outside = false;
};

class RegionFilter {
 public:
  RegionFilter(Graph& graph, Regions& regions)
      : graph_(graph), regions_(regions) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      names_.insert(graph.nodes[i].name);
      for_each_ref(graph.nodes[i],
                   [&](const std::string& name) { users_[name].insert(i); });
    }
    visible_.insert(graph.outputs.begin(), graph.outputs.end());
    for (const Mutation& mutation : graph.mutations) {
      visible_.insert(mutation.node);
    }
  }

  /// Backwards, so that a chain of views is given back from its end.
  void hoist_slices() {
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      int& region = regions_.region_of[i];
      if (region == Regions::kNoRegion) continue;
      if (!is_view(graph_.nodes[i].target)) continue;
      const Uses uses = uses_of(i);
      if (!uses.inside) {
        region = Regions::kNoRegion;
        regions_.reasons.calls[graph_.nodes[i].name] = {
            false, "it is a view that no call of its subgraph reads"};
      } else if (uses.outside) {
        repeat_outside(i);
      }
    }
    insert_repeated();
  }

 private:
  Uses uses_of(std::size_t i) const {
    Uses uses;
    const std::string& name = graph_.nodes[i].name;
    uses.outside = visible_.contains(name) || repeated_refs_.contains(name);
    const auto users = users_.find(name);
    if (users == users_.end()) return uses;
    for (std::size_t user : users->second) {
      const bool same = regions_.region_of[user] == regions_.region_of[i];
      (same ? uses.inside : uses.outside) = true;
    }
    return uses;
  }

  void repeat_outside(std::size_t i) {
    Node twin = graph_.nodes[i];
    const std::string name = twin.name;
    do {
      twin.name += "_outside";
    } while (!names_.insert(twin.name).second);
    const auto rename = [&](const std::string& old) {
      return old == name ? twin.name : old;
    };
    for (std::size_t user : users_[name]) {
      if (regions_.region_of[user] != regions_.region_of[i]) {
        rename_refs(graph_.nodes[user], rename);
      }
    }
    for (auto& [at, other] : repeated_) rename_refs(other, rename);
    for (std::string& output : graph_.outputs) output = rename(output);
    for (Mutation& mutation : graph_.mutations) {
      mutation.node = rename(mutation.node);
    }
    regions_.reasons.calls[twin.name] = {
        false,
        "it repeats the view " + name + " for the calls outside its subgraph"};
    for_each_ref(twin, [&](const std::string& source) {
      repeated_refs_.insert(source);
    });
    repeated_.emplace_back(i, std::move(twin));
  }

  /// Each twin right after its original; the list is in descending order.
  void insert_repeated() {
    for (auto& [at, twin] : repeated_) {
      const auto offset = static_cast<std::ptrdiff_t>(at) + 1;
      graph_.nodes.insert(graph_.nodes.begin() + offset, std::move(twin));
      regions_.region_of.insert(regions_.region_of.begin() + offset,
                                Regions::kNoRegion);
    }
  }

  Graph& graph_;
  Regions& regions_;
  std::set<std::string> names_;
  std::map<std::string, std::set<std::size_t>> users_;
  std::set<std::string> visible_;
  std::vector<std::pair<std::size_t, Node>> repeated_;
  std::set<std::string> repeated_refs_;
};

/// Channels are innermost, or were.
bool turns_channels(const TensorType& from, const TensorType& to) {
  return from.shape.size() >= 4 && from.shape[1] > 1 &&
         (from.stride[1] == 1) != (to.stride[1] == 1);
}

/// A copy that is worth a kernel: images that the model computes, or is given,
/// in another layout, and too large for a cache.
bool changes_layout(const Graph& graph, const Node& node,
                    const FusionChoices& choices) {
  const auto* ref =
      node.args.empty() ? nullptr : std::get_if<NodeRef>(&node.args[0].value);
  const Node* from = ref == nullptr ? nullptr : graph.find(ref->name);
  if (!is_copy(node.target) || from == nullptr ||
      from->kind == NodeKind::parameter || from->values.size() != 1 ||
      !from->values[0] || !node.values[0]) {
    return false;
  }
  return turns_channels(*from->values[0], *node.values[0]) &&
         element_count(*node.values[0]) >= choices.layout_copy_elements_min;
}

/// Computes something, on more than one number.
bool is_real_work(const Graph& graph, const Node& node,
                  const FusionChoices& choices) {
  if (changes_layout(graph, node, choices)) return true;
  if (node.target == "getitem" || is_view(node.target) ||
      is_copy(node.target) || is_fill(node.target)) {
    return false;
  }
  std::int64_t elements = 0;
  const auto count = [&](const Node& of) {
    for (const auto& value : of.values) {
      if (value) elements = std::max(elements, element_count(*value));
    }
  };
  count(node);
  for_each_ref(node,
               [&](const std::string& name) { count(*graph.find(name)); });
  return elements > 1;
}

void dissolve_idle_regions(const Graph& graph, Regions& regions,
                           const FusionChoices& choices) {
  std::set<int> working;
  std::set<int> reading;
  std::map<std::string, int> region_of;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const int region = regions.region_of[i];
    region_of[graph.nodes[i].name] = region;
    if (region == Regions::kNoRegion) continue;
    if (!working.contains(region) &&
        is_real_work(graph, graph.nodes[i], choices)) {
      working.insert(region);
    }
    for_each_ref(graph.nodes[i], [&](const std::string& name) {
      if (region_of[name] != region) reading.insert(region);
    });
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    int& region = regions.region_of[i];
    if (region == Regions::kNoRegion) continue;
    const bool works = working.contains(region);
    if (works && reading.contains(region)) continue;
    regions.reasons.calls[graph.nodes[i].name] = {
        false,
        works ? "its subgraph reads no tensor, so its device is unknown"
              : "its subgraph would only view, fill or copy, or compute single "
                "numbers"};
    region = Regions::kNoRegion;
  }
}

}  // namespace

void drop_trivial_regions(Graph& graph, Regions& regions,
                          const FusionChoices& choices) {
  RegionFilter(graph, regions).hoist_slices();
  dissolve_idle_regions(graph, regions, choices);
}

}  // namespace weft
