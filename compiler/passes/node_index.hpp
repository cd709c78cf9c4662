// A graph's nodes by name, and who uses them: for passes that recognise several
// calls as one.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace weft {

class NodeIndex {
 public:
  /// The graph must outlive it.
  explicit NodeIndex(const Graph& graph);

  const Node* find(std::string_view name) const;
  /// The node that the call's argument names, or nullptr.
  const Node* argument(const Node& call, std::size_t position) const;
  /// The number at that place, a whole one too; nothing if it is no literal.
  static std::optional<double> number(const Node& call, std::size_t position);

  /// Whether it is a call whose one result is read once, by another call, and
  /// does not leave the model.
  bool is_inner(const Node& node) const;
  /// Who reads what is_inner() is said of.
  const Node& reader(const Node& node) const;

 private:
  std::map<std::string, const Node*, std::less<>> nodes_;
  std::map<std::string, std::vector<const Node*>, std::less<>> readers_;
  std::set<std::string> escaping_;
};

/// The type of a call's one result, or of a placeholder; nullptr if it has none
/// or several.
const TensorType* type_of(const Node* node);

}  // namespace weft
