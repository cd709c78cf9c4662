#include <algorithm>
#include <set>

#include "compiler/compose/reference_source.hpp"
#include "compiler/graph/graph_json.hpp"

namespace weft {

namespace {

bool is_weight(const Plan& plan, const std::string& name) {
  const NodeKind kind = plan.model.find(name)->kind;
  return kind == NodeKind::parameter || kind == NodeKind::buffer ||
         kind == NodeKind::constant;
}

Json type_value(const TensorType& type) {
  return Json{{"dtype", dtype_name(type.dtype)},
              {"shape", type.shape},
              {"stride", type.stride}};
}

/// "NCHW" or "NHWC" where the first input of four dimensions says so.
Json data_layout(const Graph& graph) {
  for (const std::string& name : input_names(graph)) {
    const TensorType& type = tensor_type(graph, name);
    if (type.shape.size() != 4) continue;
    const auto& stride = type.stride;
    if (std::ranges::is_sorted(stride, std::ranges::greater_equal())) {
      return "NCHW";
    }
    if (stride[1] == 1 && stride[0] >= stride[2] && stride[2] >= stride[3]) {
      return "NHWC";
    }
    return nullptr;
  }
  return nullptr;
}

Json ops_of(const Graph& graph) {
  Json ops = Json::array();
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::call || node.target == "getitem") continue;
    Json args = Json::array();
    for (const Arg& arg : node.args) args.push_back(arg_to_value(arg));
    Json op{{"op", node.target}, {"args", args}};
    for (const auto& [key, arg] : node.kwargs) {
      op["kwargs"][key] = arg_to_value(arg);
    }
    ops.push_back(op);
  }
  return ops;
}

/// Every line of the problem that a placement's calls come from, each once.
Json source_lines(const Plan& plan, const Placement& placement) {
  Json lines = Json::array();
  std::set<std::string> seen;
  for (const std::string& name : placement.nodes) {
    const std::string& line = plan.model.find(name)->source;
    if (!line.empty() && seen.insert(line).second) lines.push_back(line);
  }
  return lines;
}

std::string where_text(const Json& lines) {
  std::string text;
  for (const Json& line : lines) {
    text += (text.empty() ? "" : ", ") + line.get<std::string>();
  }
  return text;
}

Json item_of(const Plan& plan, const Subgraph& subgraph) {
  const Graph& graph = subgraph.graph;
  std::vector<const Placement*> own_placements;
  for (const Placement& placement : plan.placements) {
    if (placement.subgraph == subgraph.id) own_placements.push_back(&placement);
  }
  const Placement& first = *own_placements.front();
  Json inputs = Json::array();
  Json weights = Json::object();
  Json all_inputs = Json::array();
  for (std::size_t i = 0; i < first.inputs.size(); ++i) {
    const Node* node = plan.model.find(first.inputs[i]);
    const TensorType& type = *node->values.front();
    if (is_weight(plan, node->name)) {
      weights[node->target] = type.shape;
    } else {
      inputs.push_back(type.shape);
    }
    all_inputs.push_back(type_value(type));
  }
  Json outputs = Json::array();
  for (const std::string& name : graph.outputs) {
    outputs.push_back(type_value(tensor_type(graph, name)));
  }
  Json placements = Json::array();
  for (const Placement* placement : own_placements) {
    placements.push_back(Json{{"nodes", placement->nodes},
                              {"inputs", placement->inputs},
                              {"outputs", placement->outputs},
                              {"lines", source_lines(plan, *placement)}});
  }
  return Json{
      {"id", subgraph.id},
      {"type", subgraph.type},
      {"data_layout", data_layout(graph)},
      {"dtype", outputs.front()["dtype"]},
      {"ops", ops_of(graph)},
      {"inputs", inputs},
      {"output_shape", outputs.front()["shape"]},
      {"weights_fused", nullptr},
      {"weights_original", weights.empty() ? Json() : weights},
      {"count", own_placements.size()},
      {"where", where_text(placements.front()["lines"])},
      {"source",
       {{"module", "Model"},
        {"code", python_function(graph, "reference", Precision::captured)}}},
      {"signature", subgraph.signature},
      {"input_types", all_inputs},
      {"output_types", outputs},
      {"placements", placements}};
}

}  // namespace

std::string subgraphs_json(const Plan& plan) {
  Json items = Json::array();
  for (const Subgraph& subgraph : plan.subgraphs) {
    items.push_back(item_of(plan, subgraph));
  }
  return items.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft
