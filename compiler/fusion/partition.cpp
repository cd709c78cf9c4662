#include "compiler/fusion/partition.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "compiler/fusion/signature.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {

namespace {

/// Each region, and each node in none, as one group; ids are dense.
std::vector<std::size_t> group_ids(const Regions& regions) {
  std::vector<std::size_t> ids;
  std::map<int, std::size_t> of_region;
  std::size_t count = 0;
  for (int region : regions.region_of) {
    if (region == Regions::kNoRegion) {
      ids.push_back(count++);
      continue;
    }
    const auto [found, is_new] = of_region.emplace(region, count);
    if (is_new) ++count;
    ids.push_back(found->second);
  }
  return ids;
}

/// "layer_norm+gelu": the work in it, repeats dropped, at most four.
std::string type_for_people(const Graph& graph) {
  constexpr std::size_t kSpokenMax = 4;
  std::vector<std::string> spoken;
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::call || node.target == "getitem") continue;
    if (is_view(node.target) || is_copy(node.target) || is_fill(node.target)) {
      continue;
    }
    std::string name = spoken_name(node.target);
    if (spoken.empty() || spoken.back() != name) {
      spoken.push_back(std::move(name));
    }
  }
  std::string type;
  for (std::size_t i = 0; i < std::min(spoken.size(), kSpokenMax); ++i) {
    type.append(i ? "+" : "").append(spoken[i]);
  }
  if (spoken.empty()) return "copy";
  if (spoken.size() > kSpokenMax) {
    type += "+" + std::to_string(spoken.size() - kSpokenMax) + "_more";
  }
  return type;
}

/// "{0}" of one, "({0}, {1})" of several.
std::string template_of(std::size_t outputs) {
  std::string text;
  for (std::size_t i = 0; i < outputs; ++i) {
    text.append(i ? ", {" : "{").append(std::to_string(i)).append("}");
  }
  if (outputs == 1) return text;
  return std::string("(").append(text).append(")");
}

/// What was decided of a pair, as it stands in the end: neighbours may come
/// into one region by calls between them, and leave one when it is dissolved.
std::string reason_of(const Node& producer, const Node& consumer, bool is_fused,
                      const PartitionReasons& reasons) {
  const auto pair = reasons.pairs.find({producer.name, consumer.name});
  const bool is_told = pair != reasons.pairs.end();
  if (is_fused) {
    return is_told && pair->second
               ? pair->second.reason
               : "calls between them joined both to one subgraph";
  }
  for (const Node* node : {&producer, &consumer}) {
    const auto call = reasons.calls.find(node->name);
    if (call != reasons.calls.end() && !call->second) {
      return node->name + " stays PyTorch's";
    }
  }
  return is_told ? pair->second.reason : "";
}

/// For each call, and each call that it reads.
std::vector<FusionReason> reasons_of(const Graph& graph,
                                     const Regions& regions) {
  std::vector<FusionReason> reasons;
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& consumer = graph.nodes[i];
    index_of[consumer.name] = i;
    if (consumer.kind != NodeKind::call) continue;
    std::set<std::string> seen;
    for_each_ref(consumer, [&](const std::string& name) {
      const std::size_t at = index_of.at(name);
      const Node& producer = graph.nodes[at];
      if (producer.kind != NodeKind::call || !seen.insert(name).second) return;
      const int region = regions.region_of[at];
      const bool is_fused =
          region != Regions::kNoRegion && region == regions.region_of[i];
      reasons.push_back(
          {name, consumer.name, is_fused,
           reason_of(producer, consumer, is_fused, regions.reasons)});
    });
  }
  return reasons;
}

}  // namespace

void order_by_region(Graph& graph, Regions& regions) {
  const auto next = successors(graph);
  const auto group = group_ids(regions);
  std::vector<std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (group[i] == members.size()) members.emplace_back();
    members[group[i]].push_back(i);
  }
  // Ids ascend with a group's first node, so the smallest ready one is the
  // one that the model ran first.
  std::vector<std::set<std::size_t>> after(members.size());
  std::vector<std::size_t> missing(members.size(), 0);
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (std::size_t user : next[i]) {
      if (group[user] != group[i] &&
          after[group[i]].insert(group[user]).second) {
        ++missing[group[user]];
      }
    }
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>>
      ready;
  for (std::size_t id = 0; id < members.size(); ++id) {
    if (missing[id] == 0) ready.push(id);
  }
  std::vector<Node> nodes;
  Regions ordered;
  ordered.reasons = std::move(regions.reasons);
  while (!ready.empty()) {
    const std::size_t id = ready.top();
    ready.pop();
    for (std::size_t i : members[id]) {
      nodes.push_back(std::move(graph.nodes[i]));
      ordered.region_of.push_back(regions.region_of[i]);
    }
    for (std::size_t user : after[id]) {
      if (--missing[user] == 0) ready.push(user);
    }
  }
  graph.nodes = std::move(nodes);
  regions = std::move(ordered);
}

PieceExtractor::PieceExtractor(const Graph& graph)
    : graph_(graph),
      users_(graph.nodes.size()),
      visible_(graph.outputs.begin(), graph.outputs.end()) {
  for (const Mutation& mutation : graph.mutations) {
    visible_.insert(mutation.node);
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    index_of_[graph.nodes[i].name] = i;
    for_each_ref(graph.nodes[i], [&](const std::string& name) {
      users_[index_of_.at(name)].push_back(i);
    });
  }
}

Extracted PieceExtractor::extract(
    const std::vector<std::size_t>& indices) const {
  Extracted piece;
  const std::set<std::size_t> inside(indices.begin(), indices.end());
  std::map<std::string, std::string> canonical;
  std::vector<Node> calls;
  for (const std::size_t index : indices) {
    Node call = graph_.nodes[index];
    for_each_ref(call, [&](const std::string& name) {
      const std::size_t from = index_of_.at(name);
      if (inside.contains(from) || canonical.contains(name)) return;
      Node input;
      input.name = "x" + std::to_string(piece.inputs.size());
      input.kind = NodeKind::input;
      input.target = input.name;
      input.values = graph_.nodes[from].values;
      canonical[name] = input.name;
      piece.inputs.push_back(name);
      piece.graph.nodes.push_back(std::move(input));
    });
    rename_refs(call, [&](const std::string& name) { return canonical[name]; });
    piece.nodes.push_back(call.name);
    canonical[call.name] = "t" + std::to_string(calls.size());
    call.name = canonical[call.name];
    calls.push_back(std::move(call));
  }
  for (const std::size_t index : indices) {
    const Node& node = graph_.nodes[index];
    const bool is_used_outside =
        visible_.contains(node.name) ||
        std::ranges::any_of(users_[index], [&](std::size_t user) {
          return !inside.contains(user);
        });
    // A tuple's getitems are the outputs.
    if (!is_used_outside || node.is_tuple) continue;
    piece.outputs.push_back(node.name);
    piece.graph.outputs.push_back(canonical[node.name]);
  }
  for (Node& call : calls) piece.graph.nodes.push_back(std::move(call));
  piece.graph.training = graph_.training;
  piece.graph.output_template = template_of(piece.outputs.size());
  return piece;
}

Plan partition(const Graph& model, const Lowerable& lowerable,
               const NoFuse& no_fuse, const FusionChoices& choices) {
  Graph graph = model;
  Regions regions = cluster(graph, lowerable, no_fuse);
  drop_trivial_regions(graph, regions, choices);
  hoist_loop_slices(graph, regions, choices);
  return plan_of(std::move(graph), std::move(regions));
}

Plan plan_of(Graph model, Regions regions) {
  Plan plan;
  plan.model = std::move(model);
  order_by_region(plan.model, regions);
  plan.fusion_reasons = reasons_of(plan.model, regions);
  plan.call_reasons = std::move(regions.reasons.calls);

  std::vector<std::vector<std::size_t>> in_order;
  int before = Regions::kNoRegion;
  for (std::size_t i = 0; i < regions.region_of.size(); ++i) {
    const int region = regions.region_of[i];
    if (region != Regions::kNoRegion) {
      if (region != before) in_order.emplace_back();
      in_order.back().push_back(i);
    }
    before = region;
  }
  const PieceExtractor extractor(plan.model);
  std::map<std::string, std::string> id_of_signature;
  std::map<std::string, std::string> signature_of_id;
  for (const auto& indices : in_order) {
    Extracted piece = extractor.extract(indices);
    const std::string signature = signature_of(piece.graph);
    auto [found, is_new] = id_of_signature.emplace(signature, "");
    if (is_new) {
      found->second = fresh_id(signature, signature_of_id);
      signature_of_id[found->second] = signature;
      plan.subgraphs.push_back({found->second, signature,
                                type_for_people(piece.graph),
                                std::move(piece.graph)});
    }
    plan.placements.push_back({found->second, std::move(piece.nodes),
                               std::move(piece.inputs),
                               std::move(piece.outputs)});
  }
  return plan;
}

std::map<std::string, int> extern_counts(const Plan& plan) {
  std::set<std::string> in_kernels;
  for (const Placement& placement : plan.placements) {
    in_kernels.insert(placement.nodes.begin(), placement.nodes.end());
  }
  std::map<std::string, int> counts;
  for (const Node& node : plan.model.nodes) {
    if (node.kind != NodeKind::call || node.target == "getitem" ||
        is_view(node.target) || in_kernels.contains(node.name)) {
      continue;
    }
    ++counts[node.target];
  }
  return counts;
}

}  // namespace weft
