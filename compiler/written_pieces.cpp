// What a model writes piece by piece, out[:, t] = h, arrives as copies into
// views and a chain of select_scatter, each of which copies the whole tensor.
#include <map>
#include <set>

#include "compiler/graph_check.hpp"
#include "compiler/operator_facts.hpp"
#include "compiler/passes.hpp"

namespace weft {
namespace {

/// select_scatter's or select's dimension and index, both counted from zero.
struct Piece {
  std::int64_t dim = 0;
  std::int64_t index = 0;
  auto operator<=>(const Piece&) const = default;
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

  std::optional<Piece> written(const Node& node) const {
    if (node.target != "aten.select_scatter.default") return std::nullopt;
    return piece(node, 2);
  }

  static bool looks_alike(const Node& a, const Node& b) {
    return a.values.size() == 1 && b.values.size() == 1 && a.values[0] &&
           b.values[0] && a.values[0]->dtype == b.values[0]->dtype &&
           a.values[0]->shape == b.values[0]->shape;
  }

  /// What a node is another name for; nullptr if for nothing.
  const std::string* same_as(const Node& node) const {
    if (node.target == "aten.copy.default") {
      const Node* source = find(ref(node, 1));
      const bool is_it = source != nullptr && looks_alike(node, *source);
      return is_it ? &source->name : nullptr;
    }
    if (node.target != "aten.select.int") return nullptr;
    const auto wanted = piece(node, 1);
    const Node* whole = find(ref(node, 0));
    while (wanted && whole != nullptr) {
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
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      by_name_[graph_.nodes[i].name] = i;
      for_each_ref(graph_.nodes[i],
                   [&](const std::string& name) { ++uses[name]; });
    }
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend();
         ++node) {
      const auto last = written(*node);
      if (!last || !is_row_major(*node->values[0])) continue;
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
  return Pieces(std::move(graph)).joined();
}

}  // namespace weft
