#include <algorithm>

#include "compiler/graph/convolution_facts.hpp"
#include "compiler/passes/passes.hpp"

namespace weft {
namespace {

constexpr std::size_t kWeightAt = 1, kPaddingAt = 4, kTransposedAt = 6;

/// Zeros around the image, for the turned window to reach what the transposed
/// convolution did; none where it would have to be cut instead.
std::optional<std::vector<std::int64_t>> padding_of(
    const Convolution& convolution) {
  std::vector<std::int64_t> around;
  for (std::size_t i = 0; i < convolution.steps.size(); ++i) {
    const std::int64_t taps = convolution.weight->shape[i + 2];
    around.push_back(convolution.dilation[i] * (taps - 1) -
                     convolution.padding[i]);
    if (convolution.steps[i] != 1 || convolution.more[i] != 0 ||
        around[i] < 0) {
      return std::nullopt;
    }
  }
  return around;
}

class Turner {
 public:
  explicit Turner(const Graph& graph) : graph_(graph) {}

  Graph run() {
    for (const Node& node : graph_.nodes) {
      const auto convolution = convolution_of(graph_, node);
      if (convolution && node.tf32 &&
          steps_by_one_through_volumes(*convolution)) {
        turn(node, *convolution);
      } else {
        nodes_.push_back(node);
      }
    }
    Graph forward = graph_;
    forward.nodes = std::move(nodes_);
    return forward;
  }

 private:
  static bool steps_by_one_through_volumes(const Convolution& convolution) {
    return convolution.transposed && convolution.groups == 1 &&
           convolution.window > 1 && convolution.weight->shape.size() == 5 &&
           is_row_major(*convolution.weight) && padding_of(convolution);
  }

  void turn(const Node& node, const Convolution& convolution) {
    TensorType type = *convolution.weight;
    const Arg turned = add(node, "turned", "aten.flip.default",
                           {node.args[kWeightAt], list_of({2, 3, 4})}, type);
    std::swap(type.shape[0], type.shape[1]);
    std::swap(type.stride[0], type.stride[1]);
    const Arg across = add(node, "across", "aten.permute.default",
                           {turned, list_of({1, 0, 2, 3, 4})}, type);
    const Arg window = add(
        node, "window", "aten.clone.default", {across},
        row_major(type.dtype, type.shape),
        {{"memory_format", {Symbol{"memory_format", "contiguous_format"}}}});
    Node forward = node;
    forward.args[kWeightAt] = window;
    forward.args[kPaddingAt] = list_of(*padding_of(convolution));
    forward.args[kTransposedAt] = {false};
    nodes_.push_back(std::move(forward));
  }

  /// A call made for that one; a reference to it.
  Arg add(const Node& of, const std::string& what, const std::string& target,
          std::vector<Arg> args, TensorType type,
          decltype(Node::kwargs) kwargs = {}) {
    Node node;
    node.name = graph_.unused_name(of.name + "_" + what);
    node.target = target;
    node.args = std::move(args);
    node.kwargs = std::move(kwargs);
    node.values = {std::move(type)};
    node.source = of.source;
    nodes_.push_back(std::move(node));
    return {NodeRef{nodes_.back().name}};
  }

  const Graph& graph_;
  std::vector<Node> nodes_;
};

}  // namespace

Graph transposed_to_forward_convolution(const Graph& graph) {
  return Turner(graph).run();
}

}  // namespace weft
