// A loop over time reads x[:, t] in its step t. With that view inside, each
// step would be a subgraph of its own; outside, all are one.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/fusion/partition.hpp"
#include "compiler/fusion/signature.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {
namespace {

/// Kernels read tensors that begin at multiples of so many bytes; others are
/// copied first.
constexpr std::int64_t kAlignedBytes = 16;

std::int64_t integer(const Node& call, std::size_t position) {
  if (position >= call.args.size()) return 0;
  const auto* value = std::get_if<std::int64_t>(&call.args[position].value);
  return value == nullptr ? 0 : *value;
}

enum class Begin { none, aligned, anywhere };

/// Where a select or slice of one tensor begins in it; none: it is neither, or
/// not worth a copy.
Begin begin_of(const Graph& graph, const Node& node,
               const FusionChoices& choices) {
  const std::string_view name = operator_name(node.target);
  if (name != "select" && name != "slice") return Begin::none;
  const auto* ref =
      node.args.empty() ? nullptr : std::get_if<NodeRef>(&node.args[0].value);
  const Node* from = ref == nullptr ? nullptr : graph.find(ref->name);
  if (from == nullptr || from->values.size() != 1 || !from->values[0]) {
    return Begin::none;
  }
  const TensorType& type = *from->values[0];
  const auto rank = static_cast<std::int64_t>(type.shape.size());
  const std::int64_t given = integer(node, 1);
  const std::int64_t dim = given < 0 ? given + rank : given;
  if (dim < 0 || dim >= rank) return Begin::none;
  const std::int64_t bytes = element_bytes(type.dtype);
  const std::int64_t start = integer(node, 2);
  const std::int64_t first = start < 0 ? start + type.shape[dim] : start;
  if (first * type.stride[dim] * bytes % kAlignedBytes == 0) {
    return Begin::aligned;
  }
  return element_count(type) * bytes <= choices.unaligned_copy_bytes_max
             ? Begin::anywhere
             : Begin::none;
}

/// A region's nodes, by their places: views in front read nothing of it but
/// each other.
struct Region {
  std::vector<std::size_t> all;
  std::vector<std::size_t> views;
  std::vector<std::size_t> rest;
  bool is_aligned = true;  ///< all of these views
};

std::map<int, Region> regions_behind_views(const Graph& graph,
                                           const Regions& regions,
                                           const FusionChoices& choices) {
  std::map<std::string, std::size_t> index_of;
  std::map<int, Region> found;
  std::set<std::size_t> in_front;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    index_of[node.name] = i;
    const int id = regions.region_of[i];
    if (id == Regions::kNoRegion) continue;
    Region& region = found[id];
    region.all.push_back(i);
    bool is_in_front = false;
    const Begin begin = begin_of(graph, node, choices);
    if (begin != Begin::none) {
      const auto& ref = std::get<NodeRef>(node.args[0].value);
      const std::size_t from = index_of.at(ref.name);
      is_in_front = regions.region_of[from] != id || in_front.contains(from);
    }
    if (is_in_front) in_front.insert(i);
    if (is_in_front && begin == Begin::anywhere) region.is_aligned = false;
    (is_in_front ? region.views : region.rest).push_back(i);
  }
  std::erase_if(found,
                [](const auto& region) { return region.second.views.empty(); });
  return found;
}

}  // namespace

void hoist_loop_slices(const Graph& graph, Regions& regions,
                       const FusionChoices& choices) {
  const auto found = regions_behind_views(graph, regions, choices);
  if (found.size() < choices.loop_steps_min) return;
  const PieceExtractor extractor(graph);
  const auto signature = [&](const std::vector<std::size_t>& nodes) {
    return signature_of(extractor.extract(nodes).graph);
  };
  std::map<std::string, std::vector<const Region*>> by_rest;
  for (const auto& [id, region] : found) {
    by_rest[signature(region.rest)].push_back(&region);
  }
  for (const auto& [rest, alike] : by_rest) {
    const bool is_aligned = std::ranges::all_of(alike, &Region::is_aligned);
    const std::size_t least =
        is_aligned ? choices.loop_steps_min : choices.unaligned_loop_steps_min;
    if (alike.size() < least) continue;
    std::set<std::string> different;
    for (const Region* region : alike) different.insert(signature(region->all));
    if (different.size() < least) continue;
    for (const Region* region : alike) {
      for (const std::size_t i : region->views) {
        regions.region_of[i] = Regions::kNoRegion;
        regions.reasons.calls[graph.nodes[i].name] = {
            false, "it reads one step of a loop, and with it inside each of " +
                       std::to_string(alike.size()) +
                       " equal subgraphs would need a kernel of its own"};
      }
    }
  }
}

}  // namespace weft
