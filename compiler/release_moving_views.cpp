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

/// So many regions that differ in nothing else are a loop.
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

/// By region, such views that read nothing of it but each other.
std::map<int, std::vector<std::size_t>> views_in_front(const Graph& graph,
                                                       const Regions& regions) {
  std::map<std::string, std::size_t> place;
  std::map<int, std::vector<std::size_t>> found;
  std::set<std::size_t> in_front;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    place[graph.nodes[i].name] = i;
    const int region = regions.region_of[i];
    if (region == Regions::kNoRegion ||
        !is_moving_view(graph, graph.nodes[i])) {
      continue;
    }
    const auto& ref = std::get<NodeRef>(graph.nodes[i].args[0].value);
    const std::size_t from = place.at(ref.name);
    if (regions.region_of[from] == region && !in_front.contains(from)) continue;
    in_front.insert(i);
    found[region].push_back(i);
  }
  return found;
}

struct Alike {
  std::set<std::string> signatures;  ///< with the views
  std::vector<std::size_t> views;
};

}  // namespace

void release_moving_views(const Graph& graph, Regions& regions) {
  std::map<std::string, Alike> by_rest;
  for (const auto& [region, views] : views_in_front(graph, regions)) {
    Regions rest = regions;
    for (const std::size_t i : views) rest.region_of[i] = Regions::kNoRegion;
    Alike& alike =
        by_rest[signature_of(extract_region(graph, rest, region).graph)];
    alike.signatures.insert(
        signature_of(extract_region(graph, regions, region).graph));
    alike.views.insert(alike.views.end(), views.begin(), views.end());
  }
  for (const auto& [rest, alike] : by_rest) {
    if (alike.signatures.size() < repeats_min) continue;
    for (const std::size_t i : alike.views) {
      regions.region_of[i] = Regions::kNoRegion;
    }
  }
}

}  // namespace weft
