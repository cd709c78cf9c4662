// A loop over time reads x[:, t] in its step t. With that view inside, each
// step would be a subgraph of its own; outside, all are one.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/operator_facts.hpp"
#include "compiler/partition.hpp"
#include "compiler/signature.hpp"

namespace weft {
namespace {

/// So many different regions that differ in nothing else are a loop.
constexpr std::size_t repeats_min = 4;
/// Kernels read tensors that begin at multiples of so many bytes; others are
/// copied first.
constexpr std::int64_t aligned_bytes = 16;

std::int64_t integer(const Node& call, std::size_t position) {
  if (position >= call.args.size()) return 0;
  const auto* value = std::get_if<std::int64_t>(&call.args[position].value);
  return value == nullptr ? 0 : *value;
}

/// A select or slice of one tensor that begins at a multiple of those bytes in
/// it.
bool is_moving_view(const Graph& graph, const Node& node) {
  const std::string_view name = operator_name(node.target);
  if (name != "select" && name != "slice") return false;
  const auto* ref =
      node.args.empty() ? nullptr : std::get_if<NodeRef>(&node.args[0].value);
  const Node* from = ref == nullptr ? nullptr : graph.find(ref->name);
  if (from == nullptr || from->values.size() != 1 || !from->values[0]) {
    return false;
  }
  const TensorType& type = *from->values[0];
  const auto rank = static_cast<std::int64_t>(type.shape.size());
  const std::int64_t given = integer(node, 1);
  const std::int64_t dim = given < 0 ? given + rank : given;
  if (dim < 0 || dim >= rank) return false;
  const std::int64_t start = integer(node, 2);
  const std::int64_t first = start < 0 ? start + type.shape[dim] : start;
  return first * type.stride[dim] * element_bytes(type.dtype) % aligned_bytes ==
         0;
}

/// A region's nodes, by their places.
struct Region {
  std::vector<std::size_t> all;
  std::vector<std::size_t>
      views;  ///< such as read nothing of it but each other
  std::vector<std::size_t> rest;
};

std::map<int, Region> regions_behind_views(const Graph& graph,
                                           const Regions& regions) {
  std::map<std::string, std::size_t> place;
  std::map<int, Region> found;
  std::set<std::size_t> in_front;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    place[node.name] = i;
    const int id = regions.region_of[i];
    if (id == Regions::kNoRegion) continue;
    Region& region = found[id];
    region.all.push_back(i);
    bool is_in_front = false;
    if (is_moving_view(graph, node)) {
      const auto& ref = std::get<NodeRef>(node.args[0].value);
      const std::size_t from = place.at(ref.name);
      is_in_front = regions.region_of[from] != id || in_front.contains(from);
    }
    if (is_in_front) in_front.insert(i);
    (is_in_front ? region.views : region.rest).push_back(i);
  }
  std::erase_if(found,
                [](const auto& one) { return one.second.views.empty(); });
  return found;
}

}  // namespace

void release_moving_views(const Graph& graph, Regions& regions) {
  const auto found = regions_behind_views(graph, regions);
  if (found.size() < repeats_min) return;
  const Extractor extractor(graph);
  const auto signature = [&](const std::vector<std::size_t>& places) {
    return signature_of(extractor.extract(places).graph);
  };
  std::map<std::string, std::vector<const Region*>> by_rest;
  for (const auto& [id, region] : found) {
    by_rest[signature(region.rest)].push_back(&region);
  }
  for (const auto& [rest, alike] : by_rest) {
    if (alike.size() < repeats_min) continue;
    std::set<std::string> different;
    for (const Region* region : alike) different.insert(signature(region->all));
    if (different.size() < repeats_min) continue;
    for (const Region* region : alike) {
      for (const std::size_t i : region->views) {
        regions.region_of[i] = Regions::kNoRegion;
      }
    }
  }
}

}  // namespace weft
