#include <set>
#include <utility>

#include "compiler/graph/graph_json.hpp"
#include "compiler/graph/subgraph.hpp"
#include "messages/parse_json.hpp"

namespace weft {

namespace {

std::unexpected<Error> misfit(const std::string& what) {
  return fail(ErrorCode::damaged, "stored plan: " + what);
}

std::string text_of(const Json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

Result<Subgraph> subgraph_from_value(const Json& value) {
  if (!value.is_object()) return misfit("a subgraph is no object");
  auto graph = graph_from_value(value.value("graph", Json()));
  if (!graph) return misfit(graph.error().message);
  return Subgraph{text_of(value, "id"), text_of(value, "signature"),
                  text_of(value, "type"), std::move(*graph)};
}

Result<Placement> placement_from_value(const Json& value) {
  if (!value.is_object()) return misfit("a placement is no object");
  auto nodes = strings_from_value(value.value("nodes", Json()), "nodes");
  auto inputs = strings_from_value(value.value("inputs", Json()), "inputs");
  auto outputs = strings_from_value(value.value("outputs", Json()), "outputs");
  if (!nodes || !inputs || !outputs) return misfit("a placement lacks a list");
  return Placement{text_of(value, "subgraph"), std::move(*nodes),
                   std::move(*inputs), std::move(*outputs)};
}

/// Placements name subgraphs and nodes that exist.
Result<void> check_names(const Plan& plan) {
  std::set<std::string> ids;
  std::set<std::string> nodes;
  for (const Subgraph& subgraph : plan.subgraphs) ids.insert(subgraph.id);
  for (const Node& node : plan.model.nodes) nodes.insert(node.name);
  for (const Placement& placement : plan.placements) {
    if (!ids.contains(placement.subgraph)) {
      return misfit("no subgraph " + placement.subgraph);
    }
    for (const auto* names :
         {&placement.nodes, &placement.inputs, &placement.outputs}) {
      for (const std::string& name : *names) {
        if (!nodes.contains(name)) return misfit("no node " + name);
      }
    }
  }
  return {};
}

Json plan_to_value(const Plan& plan) {
  Json subgraphs = Json::array();
  for (const Subgraph& subgraph : plan.subgraphs) {
    subgraphs.push_back(Json{{"id", subgraph.id},
                             {"signature", subgraph.signature},
                             {"type", subgraph.type},
                             {"graph", graph_to_value(subgraph.graph)}});
  }
  Json placements = Json::array();
  for (const Placement& placement : plan.placements) {
    placements.push_back(Json{{"subgraph", placement.subgraph},
                              {"nodes", placement.nodes},
                              {"inputs", placement.inputs},
                              {"outputs", placement.outputs}});
  }
  Json value{{"model", graph_to_value(plan.model)},
             {"subgraphs", subgraphs},
             {"placements", placements}};
  if (!plan.label.empty()) value["way"] = plan.label;
  if (!plan.fused_attention_calls.empty())
    value["stand_ins"] = plan.fused_attention_calls;
  for (const Plan& other : plan.others) {
    value["others"].push_back(plan_to_value(other));
  }
  for (const Plan& partition : plan.eager_contractions_partition) {
    value["near_cut"].push_back(plan_to_value(partition));
  }
  return value;
}

Result<Plan> plan_from_value(const Json& value, bool is_whole) {
  if (!value.is_object()) return misfit("not a JSON object");
  Plan plan;
  auto model = graph_from_value(value.value("model", Json()));
  if (!model) return misfit(model.error().message);
  plan.model = std::move(*model);
  for (const Json& item : value.value("subgraphs", Json::array())) {
    auto subgraph = subgraph_from_value(item);
    if (!subgraph) return std::unexpected(subgraph.error());
    plan.subgraphs.push_back(std::move(*subgraph));
  }
  for (const Json& item : value.value("placements", Json::array())) {
    auto placement = placement_from_value(item);
    if (!placement) return std::unexpected(placement.error());
    plan.placements.push_back(std::move(*placement));
  }
  if (auto checked = check_names(plan); !checked) {
    return std::unexpected(checked.error());
  }
  plan.label = text_of(value, "way");
  auto fused_attention_calls =
      strings_from_value(value.value("stand_ins", Json::array()), "stand_ins");
  if (!fused_attention_calls)
    return misfit(fused_attention_calls.error().message);
  plan.fused_attention_calls = std::move(*fused_attention_calls);
  for (const auto& [field, cuts] :
       {std::pair{"others", &plan.others},
        std::pair{"near_cut", &plan.eager_contractions_partition}}) {
    for (const Json& item : value.value(field, Json::array())) {
      if (!is_whole) return misfit("another partition has others of its own");
      auto other = plan_from_value(item, false);
      if (!other) return std::unexpected(other.error());
      cuts->push_back(std::move(*other));
    }
  }
  if (plan.eager_contractions_partition.size() > 1)
    return misfit("two eager-contractions partitions");
  return plan;
}

}  // namespace

std::string plan_to_json(const Plan& plan) {
  return plan_to_value(plan).dump(-1, ' ', false,
                                  Json::error_handler_t::replace);
}

Result<Plan> parse_plan(std::string_view json) {
  return plan_from_value(parse_json<Json>(json), true);
}

}  // namespace weft
