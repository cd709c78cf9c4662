// An einsum of three operands or more as one of two after the other, so that
// what only multiplies can be fused with its neighbours, and what sums is a
// product of matrices.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "compiler/graph/einsum_equation.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/product_letters.hpp"

namespace weft {
namespace {

struct Operand {
  std::string node;
  Letters letters;
};

struct Equation {
  std::vector<Operand> operands;
  Letters result;
  std::map<char, std::int64_t> extents;
};

class ByPairs {
 public:
  explicit ByPairs(const Graph& graph)
      : graph_(graph), escaping_(escaping_nodes(graph)) {}

  Graph run() {
    for (const Node& node : graph_.nodes) {
      // What leaves the model must lie in memory as the framework lays it.
      auto equation =
          escaping_.contains(node.name) ? std::nullopt : equation_of(node);
      if (equation) {
        take_apart(node, std::move(*equation));
      } else {
        keep(node);
      }
    }
    Graph made = graph_;
    made.nodes = std::move(nodes_);
    return made;
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
      if (has_twice(operand.letters) ||
          operand.letters.size() != type->shape.size() ||
          type->dtype != node.values[0]->dtype) {
        return std::nullopt;
      }
      for (std::size_t i = 0; i < operand.letters.size(); ++i) {
        const auto [extent, is_new] =
            found.extents.emplace(operand.letters[i], type->shape[i]);
        // Of extent one it would be stretched.
        if (extent->second != type->shape[i]) return std::nullopt;
      }
      found.operands.push_back(std::move(operand));
    }
    return found;
  }

  void take_apart(const Node& node, Equation equation) {
    auto& operands = equation.operands;
    while (operands.size() > 2) {
      std::size_t first = 0, second = 1;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < operands.size(); ++i) {
        for (std::size_t j = i + 1; j < operands.size(); ++j) {
          double elements = 1;
          for (const char letter : kept(equation, i, j)) {
            elements *= static_cast<double>(equation.extents.at(letter));
          }
          if (elements >= least) continue;
          least = elements;
          first = i;
          second = j;
        }
      }
      const Letters letters = kept(equation, first, second);
      std::vector<std::int64_t> shape;
      for (const char letter : letters) {
        shape.push_back(equation.extents.at(letter));
      }
      Node made = node;
      made.name = unused_name(node.name + "_pair");
      made.values = {row_major(node.values[0]->dtype, std::move(shape))};
      const Operand a = operands[first], b = operands[second];
      operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(second));
      operands[first] = {made.name, letters};
      multiply(std::move(made), a, b, letters);
    }
    multiply(node, operands[0], operands[1], equation.result);
  }

  /// What is left of two operands: letters that the result or others have, in
  /// the order in which a product of matrices gives them.
  static Letters kept(const Equation& equation, std::size_t first,
                      std::size_t second) {
    const Letters& a = equation.operands[first].letters;
    const Letters& b = equation.operands[second].letters;
    Letters others = equation.result;
    for (std::size_t i = 0; i < equation.operands.size(); ++i) {
      if (i != first && i != second) others += equation.operands[i].letters;
    }
    Letters both, of_a, of_b;
    for (const char letter : a) {
      if (has(others, letter)) (has(b, letter) ? both : of_a) += letter;
    }
    for (const char letter : b) {
      if (has(others, letter) && !has(a, letter)) of_b += letter;
    }
    return both + of_a + of_b;
  }

  void multiply(Node made, const Operand& a, const Operand& b,
                const Letters& result) {
    const bool sums =
        std::ranges::any_of(a.letters + b.letters,
                            [&](char letter) { return !has(result, letter); });
    if (sums) {
      made.args = {{a.letters + "," + b.letters + "->" + result},
                   {Arg::List{{NodeRef{a.node}}, {NodeRef{b.node}}}}};
    } else {
      made.target = "aten.mul.Tensor";
      made.args = {{NodeRef{spread(made, a, result)}},
                   {NodeRef{spread(made, b, result)}}};
    }
    keep(std::move(made));
  }

  /// A view of it that has the result's letters in their order, those that it
  /// lacks of extent one.
  std::string spread(const Node& of, const Operand& operand,
                     const Letters& result) {
    TensorType type = *type_of(operand.node);
    TensorType turned{type.dtype, {}, {}};
    Arg::List order;
    for (const char letter : result) {
      const std::size_t dim = operand.letters.find(letter);
      if (dim == Letters::npos) continue;
      order.push_back({static_cast<std::int64_t>(dim)});
      turned.shape.push_back(type.shape[dim]);
      turned.stride.push_back(type.stride[dim]);
    }
    std::string name = operand.node;
    if (turned != type) {
      name = view(of, "aten.permute.default", name, {std::move(order)}, turned);
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (has(operand.letters, result[i])) continue;
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
    Node made;
    made.name = unused_name(of.name + "_view");
    made.target = target;
    made.args = {{NodeRef{from}}, std::move(how)};
    made.values = {type};
    made.source = of.source;
    keep(made);
    return made.name;
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
