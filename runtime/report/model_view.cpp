#include "runtime/report/model_view.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/fusion/product_count.hpp"
#include "compiler/fusion/signature.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {
namespace {

using nlohmann::json;

std::string short_name(DType dtype) {
  const std::string name(dtype_name(dtype));
  static const std::map<std::string, std::string> names = {
      {"float64", "f64"},   {"float32", "f32"}, {"float16", "f16"},
      {"bfloat16", "bf16"}, {"int64", "i64"},   {"int32", "i32"}};
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

void visit_references(const Arg& arg,
                      const std::function<void(const std::string&)>& visit) {
  if (const auto* ref = std::get_if<NodeRef>(&arg.value)) visit(ref->name);
  if (const auto* list = std::get_if<Arg::List>(&arg.value)) {
    for (const Arg& part : *list) visit_references(part, visit);
  }
}

void visit_references(const Node& node,
                      const std::function<void(const std::string&)>& visit) {
  for (const Arg& arg : node.args) visit_references(arg, visit);
  for (const auto& [name, arg] : node.kwargs) visit_references(arg, visit);
}

/// Builds the boxes, and keeps which box each of the model's nodes is in.
class Boxes {
 public:
  Boxes(const Plan& plan, std::size_t nodes_max)
      : plan_(plan), nodes_max_(nodes_max) {
    for (const Subgraph& subgraph : plan.subgraphs) {
      types_[subgraph.id] = subgraph.type;
    }
    for (std::size_t i = 0; i < plan.placements.size(); ++i) {
      for (const std::string& name : plan.placements[i].nodes) {
        placed_[name] = i;
      }
    }
  }

  json to_json() {
    for (const Node& node : plan_.model.nodes) take(node);
    take_outputs();
    json edges = json::array();
    for (const auto& [from, to] : edges_) edges.push_back({from, to});
    return {{"nodes", nodes_}, {"edges", edges}, {"left_out", left_out_}};
  }

 private:
  std::optional<std::size_t> add(json box) {
    if (nodes_.size() >= nodes_max_) {
      ++left_out_;
      return std::nullopt;
    }
    box["id"] = nodes_.size();
    nodes_.push_back(std::move(box));
    return nodes_.size() - 1;
  }

  std::optional<std::size_t> box_of_placement(std::size_t placement,
                                              const Node& node) {
    const auto found = placement_boxes_.find(placement);
    if (found != placement_boxes_.end()) return found->second;
    const std::string& id = plan_.placements[placement].subgraph;
    const auto box = add({{"kind", "subgraph"},
                          {"label", types_[id]},
                          {"type", type_text(node)},
                          {"subgraph", id}});
    placement_boxes_[placement] = box;
    return box;
  }

  /// Parameters are no boxes: each operator has its own, and they would hide
  /// how data flows.
  std::optional<std::size_t> box_of(const Node& node) {
    if (node.kind == NodeKind::input) {
      return add(
          {{"kind", "input"}, {"label", node.name}, {"type", type_text(node)}});
    }
    if (node.kind != NodeKind::call) return std::nullopt;
    const auto placed = placed_.find(node.name);
    if (placed != placed_.end()) return box_of_placement(placed->second, node);
    if (operator_name(node.target) == "getitem" && !node.args.empty()) {
      const auto* ref = std::get_if<NodeRef>(&node.args.front().value);
      const auto found = ref ? boxes_.find(ref->name) : boxes_.end();
      if (found != boxes_.end()) return found->second;
    }
    return add({{"kind", "extern"},
                {"label", spoken_name(node.target)},
                {"type", type_text(node)},
                {"view", is_view(node.target)}});
  }

  void take(const Node& node) {
    const auto box = box_of(node);
    if (!box) return;
    boxes_[node.name] = *box;
    visit_references(node, [&](const std::string& name) {
      const auto from = boxes_.find(name);
      if (from != boxes_.end() && from->second != *box) {
        edges_.insert({from->second, *box});
      }
    });
  }

  void take_outputs() {
    const auto box =
        add({{"kind", "output"}, {"label", "result"}, {"type", ""}});
    if (!box) return;
    for (const std::string& name : plan_.model.outputs) {
      const auto from = boxes_.find(name);
      if (from != boxes_.end()) edges_.insert({from->second, *box});
    }
  }

  const Plan& plan_;
  std::size_t nodes_max_;
  std::map<std::string, std::string> types_;
  std::map<std::string, std::size_t> placed_;
  std::map<std::size_t, std::optional<std::size_t>> placement_boxes_;
  std::map<std::string, std::size_t> boxes_;
  std::set<std::pair<std::size_t, std::size_t>> edges_;
  json nodes_ = json::array();
  std::size_t left_out_ = 0;
};

double elements(const Node& node) {
  double all = 0;
  for (const auto& value : node.values) {
    if (value) all += static_cast<double>(element_count(*value));
  }
  return all;
}

double bytes(const Node& node) {
  double all = 0;
  for (const auto& value : node.values) {
    if (!value) continue;
    all += static_cast<double>(element_count(*value) *
                               element_bytes(value->dtype));
  }
  return all;
}

bool computes(const Node& node) {
  return node.kind == NodeKind::call && node.target != "getitem" &&
         !is_view(node.target) && !is_copy(node.target) &&
         !is_fill(node.target) && !is_product(node.target);
}

}  // namespace

std::string type_text(const Node& node) {
  if (node.values.empty() || !node.values.front()) return "";
  const TensorType& type = *node.values.front();
  return short_name(type.dtype) + "[" + numbers_text(type.shape) + "]";
}

json model_view(const Plan& plan, std::size_t nodes_max) {
  return Boxes(plan, nodes_max).to_json();
}

double operation_count(const Graph& graph) {
  const ProductCount products = count_products(graph);
  double all = static_cast<double>(products.matrix_operations) +
               static_cast<double>(products.convolution_operations);
  std::map<std::string, double> sizes;
  for (const Node& node : graph.nodes) {
    sizes[node.name] = elements(node);
    if (!computes(node)) continue;
    double most = sizes[node.name];
    visit_references(node, [&](const std::string& name) {
      most = std::max(most, sizes[name]);
    });
    all += most;
  }
  return all;
}

double traffic_bytes(const Graph& graph) {
  const std::set<std::string> results(graph.outputs.begin(),
                                      graph.outputs.end());
  double all = 0;
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::call || results.contains(node.name)) {
      all += bytes(node);
    }
  }
  return all;
}

}  // namespace weft
