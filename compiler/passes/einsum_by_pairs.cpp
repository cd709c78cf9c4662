// An einsum of three operands or more as one of two after the other, so that
// what only multiplies can be fused with its neighbours, and what sums is a
// product of matrices.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "compiler/graph/einsum_equation.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/product_labels.hpp"

namespace weft {
namespace {

struct Operand {
  std::string node;
  Labels labels;
};

struct Equation {
  std::vector<Operand> operands;
  Labels result;
  std::map<char, std::int64_t> extents;
};

class ByPairs {
 public:
  explicit ByPairs(const Graph& graph)
      : graph_(graph), escaping_(escaping_nodes(graph)) {}

  Graph run() {
    for (const Node& node : graph_.nodes) {
      // A result of the model must have PyTorch's layout.
      auto equation =
          escaping_.contains(node.name) ? std::nullopt : equation_of(node);
      if (equation) {
        decompose(node, std::move(*equation));
      } else {
        keep(node);
      }
    }
    Graph result = graph_;
    result.nodes = std::move(nodes_);
    return result;
  }

 private:
  const TensorType* type_of(const std::string& name) const {
    const auto found = types_.find(name);
    return found == types_.end() ? nullptr : &found->second;
  }

  void keep(Node node) {
    if (node.values.size() == 1 && node.values[0]) {
      types_[node.name] = *node.values[0];
    }
    nodes_.push_back(std::move(node));
  }

  /// Nothing if it has two operands, or is not as plain as its rules want it.
  std::optional<Equation> equation_of(const Node& node) const {
    if (node.target != "aten.einsum.default" || node.args.size() != 2 ||
        !node.kwargs.empty() || node.values.size() != 1 || !node.values[0]) {
      return std::nullopt;
    }
    const auto* text = std::get_if<std::string>(&node.args[0].value);
    const auto* list = std::get_if<Arg::List>(&node.args[1].value);
    if (text == nullptr || list == nullptr || list->size() < 3) {
      return std::nullopt;
    }
    const auto parsed = parse_einsum(*text);
    if (!parsed || parsed->operands.size() != list->size() ||
        has_twice(parsed->result)) {
      return std::nullopt;
    }
    Equation found;
    found.result = parsed->result;
    for (std::size_t n = 0; n < list->size(); ++n) {
      const auto* ref = std::get_if<NodeRef>(&(*list)[n].value);
      const TensorType* type = ref == nullptr ? nullptr : type_of(ref->name);
      if (type == nullptr) return std::nullopt;
      Operand operand{ref->name, parsed->operands[n]};
      if (has_twice(operand.labels) ||
          operand.labels.size() != type->shape.size() ||
          type->dtype != node.values[0]->dtype) {
        return std::nullopt;
      }
      for (std::size_t i = 0; i < operand.labels.size(); ++i) {
        const auto [extent, is_new] =
            found.extents.emplace(operand.labels[i], type->shape[i]);
        // Of extent one it would be stretched.
        if (extent->second != type->shape[i]) return std::nullopt;
      }
      found.operands.push_back(std::move(operand));
    }
    return found;
  }

  void decompose(const Node& node, Equation equation) {
    auto& operands = equation.operands;
    while (operands.size() > 2) {
      std::size_t first = 0, second = 1;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < operands.size(); ++i) {
        for (std::size_t j = i + 1; j < operands.size(); ++j) {
          double elements = 1;
          for (const char label : remaining_labels(equation, i, j)) {
            elements *= static_cast<double>(equation.extents.at(label));
          }
          if (elements >= least) continue;
          least = elements;
          first = i;
          second = j;
        }
      }
      const Labels labels = remaining_labels(equation, first, second);
      std::vector<std::int64_t> shape;
      for (const char label : labels) {
        shape.push_back(equation.extents.at(label));
      }
      Node call = node;
      call.name = unused_name(node.name + "_pair");
      call.values = {row_major(node.values[0]->dtype, std::move(shape))};
      const Operand a = operands[first], b = operands[second];
      operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(second));
      operands[first] = {call.name, labels};
      multiply(std::move(call), a, b, labels);
    }
    multiply(node, operands[0], operands[1], equation.result);
  }

  /// What is left of two operands: letters that the result or others have, in
  /// the order in which a product of matrices gives them.
  static Labels remaining_labels(const Equation& equation, std::size_t first,
                                 std::size_t second) {
    const Labels& a = equation.operands[first].labels;
    const Labels& b = equation.operands[second].labels;
    Labels others = equation.result;
    for (std::size_t i = 0; i < equation.operands.size(); ++i) {
      if (i != first && i != second) others += equation.operands[i].labels;
    }
    Labels both, of_a, of_b;
    for (const char label : a) {
      if (has(others, label)) (has(b, label) ? both : of_a) += label;
    }
    for (const char label : b) {
      if (has(others, label) && !has(a, label)) of_b += label;
    }
    return both + of_a + of_b;
  }

  void multiply(Node call, const Operand& a, const Operand& b,
                const Labels& result) {
    const bool sums = std::ranges::any_of(
        a.labels + b.labels, [&](char label) { return !has(result, label); });
    if (sums) {
      call.args = {{a.labels + "," + b.labels + "->" + result},
                   {Arg::List{{NodeRef{a.node}}, {NodeRef{b.node}}}}};
    } else {
      call.target = "aten.mul.Tensor";
      call.args = {{NodeRef{spread(call, a, result)}},
                   {NodeRef{spread(call, b, result)}}};
    }
    keep(std::move(call));
  }

  /// A view of it that has the result's letters in their order, those that it
  /// lacks of extent one.
  std::string spread(const Node& of, const Operand& operand,
                     const Labels& result) {
    TensorType type = *type_of(operand.node);
    TensorType turned{type.dtype, {}, {}};
    Arg::List order;
    for (const char label : result) {
      const std::size_t dim = operand.labels.find(label);
      if (dim == Labels::npos) continue;
      order.push_back({static_cast<std::int64_t>(dim)});
      turned.shape.push_back(type.shape[dim]);
      turned.stride.push_back(type.stride[dim]);
    }
    std::string name = operand.node;
    if (turned != type) {
      name = view(of, "aten.permute.default", name, {std::move(order)}, turned);
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (has(operand.labels, result[i])) continue;
      const auto at = static_cast<std::ptrdiff_t>(i);
      const std::int64_t stride =
          i < turned.shape.size() ? turned.shape[i] * turned.stride[i] : 1;
      turned.shape.insert(turned.shape.begin() + at, 1);
      turned.stride.insert(turned.stride.begin() + at, stride);
      name = view(of, "aten.unsqueeze.default", name,
                  {static_cast<std::int64_t>(i)}, turned);
    }
    return name;
  }

  std::string view(const Node& of, const std::string& target,
                   const std::string& from, Arg how, const TensorType& type) {
    Node view_call;
    view_call.name = unused_name(of.name + "_view");
    view_call.target = target;
    view_call.args = {{NodeRef{from}}, std::move(how)};
    view_call.values = {type};
    view_call.source = of.source;
    keep(view_call);
    return view_call.name;
  }

  std::string unused_name(const std::string& like) {
    std::string name = graph_.unused_name(like);
    for (int number = 1; types_.contains(name); ++number) {
      name = graph_.unused_name(like + "_" + std::to_string(number));
    }
    return name;
  }

  const Graph& graph_;
  const std::set<std::string> escaping_;
  std::map<std::string, TensorType> types_;
  std::vector<Node> nodes_;
};

}  // namespace

Graph einsum_by_pairs(const Graph& graph) { return ByPairs(graph).run(); }

}  // namespace weft
