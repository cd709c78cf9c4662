// What a model writes piece by piece, out[:, t] = h, arrives as copies into
// views and a chain of select_scatter, each of which copies the whole tensor.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/passes/passes.hpp"

namespace weft {
namespace {

/// How far a piece that is read is looked for.
constexpr int kStepsMax = 512;

/// select_scatter's or select's dimension and index, both counted from zero.
struct Piece {
  std::int64_t dim = 0;
  std::int64_t index = 0;
};

class Pieces {
 public:
  explicit Pieces(Graph graph)
      : graph_(std::move(graph)), escaping_(escaping_nodes(graph_)) {}

  Graph joined() {
    read_what_was_written();
    graph_ = eliminate_dead_code(std::move(graph_));
    stack_chains();
    return eliminate_dead_code(std::move(graph_));
  }

 private:
  static const std::string* ref(const Node& node, std::size_t i) {
    if (i >= node.args.size()) return nullptr;
    const auto* found = std::get_if<NodeRef>(&node.args[i].value);
    return found == nullptr ? nullptr : &found->name;
  }

  const Node* find(const std::string* name) const {
    if (name == nullptr) return nullptr;
    const auto found = by_name_.find(*name);
    return found == by_name_.end() ? nullptr : &graph_.nodes[found->second];
  }

  /// Where it reads or writes: its arguments from `first` on.
  std::optional<Piece> piece(const Node& node, std::size_t first) const {
    const Node* whole = find(ref(node, 0));
    if (whole == nullptr || node.args.size() != first + 2 ||
        !node.kwargs.empty() || whole->values.size() != 1 ||
        !whole->values[0]) {
      return std::nullopt;
    }
    const auto& shape = whole->values[0]->shape;
    const auto* dim = std::get_if<std::int64_t>(&node.args[first].value);
    const auto* at = std::get_if<std::int64_t>(&node.args[first + 1].value);
    const auto rank = static_cast<std::int64_t>(shape.size());
    if (dim == nullptr || at == nullptr) return std::nullopt;
    Piece found{*dim < 0 ? *dim + rank : *dim, *at};
    if (found.dim < 0 || found.dim >= rank) return std::nullopt;
    const std::int64_t size = shape[static_cast<std::size_t>(found.dim)];
    if (found.index < 0) found.index += size;
    if (found.index < 0 || found.index >= size) return std::nullopt;
    return found;
  }

  /// Where a select_scatter writes, if it writes what it is given as it is: a
  /// number may lie on another device, and other types would be cast.
  std::optional<Piece> written(const Node& node) const {
    if (node.target != "aten.select_scatter.default") return std::nullopt;
    const auto found = piece(node, 2);
    const TensorType* source = type_of(find(ref(node, 1)));
    if (!found || source == nullptr || !node.values[0]) return std::nullopt;
    auto shape = node.values[0]->shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(found->dim));
    const bool is_plain = !shape.empty() && source->shape == shape &&
                          source->dtype == node.values[0]->dtype;
    return is_plain ? found : std::nullopt;
  }

  static const TensorType* type_of(const Node* node) {
    return node == nullptr || node->values.size() != 1 || !node->values[0]
               ? nullptr
               : &*node->values[0];
  }

  /// What a node is another name for; nullptr if for nothing. It must lie in
  /// memory alike: views and layouts behind it follow from that.
  const std::string* same_as(const Node& node) const {
    const TensorType* type = type_of(&node);
    const std::string* source = nullptr;
    if (node.target == "aten.copy.default") {
      source = ref(node, 1);
    } else if (node.target == "aten.select.int") {
      source = read_back(node);
    }
    const TensorType* from = type_of(find(source));
    if (type == nullptr || from == nullptr || from->dtype != type->dtype ||
        from->shape != type->shape) {
      return nullptr;
    }
    const bool lies_alike =
        from->stride == type->stride ||
        (is_row_major(*from) &&
         std::ranges::is_sorted(type->stride, std::ranges::greater_equal()));
    return lies_alike ? source : nullptr;
  }

  /// What was written to the piece that a select reads.
  const std::string* read_back(const Node& node) const {
    const auto wanted = piece(node, 1);
    const Node* whole = find(ref(node, 0));
    for (int steps = 0; wanted && whole != nullptr && steps < kStepsMax;
         ++steps) {
      const auto here = written(*whole);
      if (!here || here->dim != wanted->dim) return nullptr;
      if (here->index == wanted->index) return ref(*whole, 1);
      whole = find(ref(*whole, 0));
    }
    return nullptr;
  }

  void read_what_was_written() {
    std::map<std::string, std::string> renamed;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      rename_refs(node, [&](const std::string& name) {
        const auto found = renamed.find(name);
        return found == renamed.end() ? name : found->second;
      });
      by_name_[node.name] = i;
      // What leaves the model stays a tensor of its own.
      if (node.kind != NodeKind::call || escaping_.contains(node.name))
        continue;
      if (const std::string* same = same_as(node)) renamed[node.name] = *same;
    }
  }

  /// A chain whose tensors nobody else reads, and that writes every piece.
  void stack_chains() {
    by_name_.clear();
    std::map<std::string, int> uses;
    std::set<std::string> continued;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      by_name_[node.name] = i;
      for_each_ref(node, [&](const std::string& name) { ++uses[name]; });
      if (written(node)) continued.insert(*ref(node, 0));
    }
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend();
         ++node) {
      const auto last = written(*node);
      const bool is_last = !continued.contains(node->name) ||
                           uses[node->name] > 1 ||
                           escaping_.contains(node->name);
      if (!last || !is_last || !is_row_major(*node->values[0])) continue;
      const auto size = static_cast<std::size_t>(
          node->values[0]->shape[static_cast<std::size_t>(last->dim)]);
      std::map<std::int64_t, std::string> sources;
      const Node* at = &*node;
      while (at != nullptr) {
        const auto here = written(*at);
        const bool is_shared = at != &*node && (uses[at->name] > 1 ||
                                                escaping_.contains(at->name));
        if (!here || here->dim != last->dim || is_shared) break;
        sources.emplace(here->index, *ref(*at, 1));  // the last one written
        at = find(ref(*at, 0));
      }
      if (sources.size() != size) continue;
      Arg::List list;
      for (const auto& [index, name] : sources) list.push_back({NodeRef{name}});
      node->target = "aten.stack.default";
      node->args = {{std::move(list)}, {last->dim}};
    }
  }

  Graph graph_;
  const std::set<std::string> escaping_;
  std::map<std::string, std::size_t> by_name_;
};

}  // namespace

Graph join_written_pieces(Graph graph) {
  if (writes_in_place(graph)) return graph;
  return Pieces(std::move(graph)).joined();
}

}  // namespace weft
