#include <algorithm>
#include <array>
#include <map>

#include "compiler/graph/convolution_facts.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/passes/passes.hpp"

namespace weft {
namespace {

/// The type with its second dimension innermost in memory.
TensorType channels_last(TensorType type) {
  std::int64_t stride = type.shape[1];
  for (std::size_t i = type.shape.size(); i-- > 2;) {
    type.stride[i] = stride;
    stride *= type.shape[i];
  }
  type.stride[1] = 1;
  type.stride[0] = stride;
  return type;
}

class Relayer {
 public:
  Relayer(const Graph& graph, const Lowerable& lowerable,
          const FusionChoices& choices)
      : graph_(graph), lowerable_(lowerable), choices_(choices) {
    for (const Node& node : graph.nodes) {
      for_each_ref(node, [&](const std::string& name) {
        users_[name].push_back(&node);
      });
    }
  }

  Relaid run() {
    for (const Node& node : graph_.nodes) {
      if (is_profitable(node)) chosen_.insert(node.name);
    }
    for (const Node& node : graph_.nodes) {
      if (chosen_.contains(node.name)) {
        convolve(node);
      } else {
        nodes_.push_back(node);
      }
    }
    Relaid relaid{graph_, std::move(no_fuse_), std::move(copied_bytes_)};
    relaid.graph.nodes = std::move(nodes_);
    return relaid;
  }

 private:
  /// Measured on an H200, 2026-11-21: images and volumes
  /// gain, but for pointwise and grouped convolutions; of those that stand
  /// alone, whose copies no other kernel does, the transposed ones.
  bool is_profitable(const Node& node) const {
    const auto convolution = convolution_of(graph_, node);
    if (!convolution || !node.tf32 || can_lower(node) ||
        convolution->groups != 1 || convolution->window == 1 ||
        (is_isolated(node) && !convolution->transposed)) {
      return false;
    }
    const std::size_t rank = convolution->result->shape.size();
    return (rank == 4 || rank == 5) &&
           convolution->image->shape.size() == rank &&
           convolution->weight->shape.size() == rank &&
           convolution->image->shape[1] > 1 &&
           convolution->result->shape[1] > 1 &&
           convolution->result->dtype != DType::f64 &&
           is_row_major(*convolution->result) &&
           element_count(*convolution->result) >=
               choices_.channels_last_elements_min;
  }

  /// Reads what the model is given, and makes what it returns.
  bool is_isolated(const Node& node) const {
    const auto& image = std::get<NodeRef>(node.args[0].value);
    return graph_.find(image.name)->kind != NodeKind::call &&
           !users_.contains(node.name);
  }

  void convolve(const Node& node) {
    Node bare = node;
    bare.name = graph_.unused_name(node.name + "_channels_last");
    bare.values = {channels_last(*node.values[0])};
    copied_bytes_[node.name] = copied_bytes(node);
    for (const std::size_t at : {0U, 1U}) {
      auto& read = std::get<NodeRef>(bare.args[at].value).name;
      read = in_channels_last(read);
    }
    Node back =
        copy(node.name, bare.name, *node.values[0], "contiguous_format");
    back.source = node.source;
    channels_last_names_[node.name] = bare.name;
    if (!may_join(node)) {
      no_fuse_[node.name] =
          "copies the convolution's result into rows, which calls behind it "
          "read more than once";
    }
    nodes_.push_back(std::move(bare));
    nodes_.push_back(std::move(back));
  }

  /// Read and written once, where no kernel of ours beside it can.
  double copied_bytes(const Node& node) const {
    const auto bytes = [](const TensorType& type) {
      return 2.0 * static_cast<double>(element_count(type) *
                                       element_bytes(type.dtype));
    };
    const auto& name = std::get<NodeRef>(node.args[0].value).name;
    const Node& image = *graph_.find(name);
    double copied = 0;
    if (image.kind != NodeKind::call) copied += bytes(*image.values[0]);
    if (!may_join(node)) copied += bytes(*node.values[0]);
    return copied;
  }

  /// The node of that tensor in that layout; made here, once.
  std::string in_channels_last(const std::string& name) {
    const auto found = channels_last_names_.find(name);
    if (found != channels_last_names_.end()) return found->second;
    const TensorType type = channels_last(*graph_.find(name)->values[0]);
    const std::string format =
        type.shape.size() == 4 ? "channels_last" : "channels_last_3d";
    nodes_.push_back(
        copy(graph_.unused_name(name + "_channels_last"), name, type, format));
    return channels_last_names_[name] = nodes_.back().name;
  }

  static Node copy(const std::string& name, const std::string& of,
                   TensorType type, const std::string& format) {
    Node node;
    node.name = name;
    node.target = "aten.clone.default";
    node.args = {{NodeRef{of}}};
    node.kwargs = {{"memory_format", {Symbol{"memory_format", format}}}};
    node.values = {std::move(type)};
    return node;
  }

  /// Whether calls behind the convolution can read its layout as they go. Not
  /// those whose rows run through an image more than once.
  bool may_join(const Node& convolution) const {
    std::set<std::string> seen;
    std::vector<const Node*> waiting{&convolution};
    while (!waiting.empty()) {
      const Node& node = *waiting.back();
      waiting.pop_back();
      if (scatters(node)) return false;
      if (reduces_positions(node)) continue;  // what it finds lies row by row
      for (const Node* user : users_of(node.name)) {
        if (chosen_.contains(user->name)) continue;  // in the same layout
        if (user->target != "getitem" && !can_lower(*user)) continue;
        if (seen.insert(user->name).second) waiting.push_back(user);
      }
    }
    return true;
  }

  std::vector<const Node*> users_of(const std::string& name) const {
    const auto found = users_.find(name);
    return found == users_.end() ? std::vector<const Node*>() : found->second;
  }

  static bool has(const Node& node, std::string_view part) {
    return operator_name(node.target).find(part) != std::string_view::npos;
  }

  /// Reads rows more than once whose elements are scattered. Statistics of a
  /// batch, of groups of channels or of rows do not: channels that lie side by
  /// side are read together, and what is normalised is another kernel's.
  static bool scatters(const Node& node) {
    if (has(node, "layer_norm")) return covers_channels(node);
    return has(node, "rms_norm") || has(node, "cumsum") ||
           has(node, "cumprod") ||
           (has(node, "softmax") && !over_channels(node));
  }

  /// Whether an element of the result is found in several positions.
  static bool reduces_positions(const Node& node) {
    constexpr auto reductions = std::to_array<std::string_view>(
        {"sum", "mean", "amax", "amin", "max", "min", "prod", "logsumexp"});
    return has(node, "pool") ||
           (std::ranges::find(reductions, operator_name(node.target)) !=
                reductions.end() &&
            !over_channels(node));
  }

  /// Whether a layer norm's rows have dimension 1 in them.
  static bool covers_channels(const Node& node) {
    const auto* dims = std::get_if<Arg::List>(&node.args.at(1).value);
    return dims == nullptr ||
           dims->size() + 1 >= node.values.front()->shape.size();
  }

  /// Over dimension 1 and no other.
  static bool over_channels(const Node& node) {
    if (node.args.size() < 2) return false;
    if (const auto* dim = std::get_if<std::int64_t>(&node.args[1].value)) {
      return *dim == 1;
    }
    const auto* list = std::get_if<Arg::List>(&node.args[1].value);
    return list != nullptr && list->size() == 1 &&
           list->front() == Arg{std::int64_t{1}};
  }

  bool can_lower(const Node& node) const {
    const auto found = can_lower_.find(&node);
    if (found != can_lower_.end()) return found->second;
    return can_lower_[&node] = lowerable_(graph_, node);
  }

  const Graph& graph_;
  const Lowerable& lowerable_;
  const FusionChoices& choices_;
  mutable std::map<const Node*, bool> can_lower_;
  std::map<std::string, std::vector<const Node*>> users_;
  std::set<std::string> chosen_;
  std::vector<Node> nodes_;
  std::map<std::string, std::string> channels_last_names_;
  NoFuse no_fuse_;
  std::map<std::string, double> copied_bytes_;
};

}  // namespace

Relaid convolve_channels_last(const Graph& graph, const Lowerable& lowerable,
                              const FusionChoices& choices) {
  return Relayer(graph, lowerable, choices).run();
}

}  // namespace weft
