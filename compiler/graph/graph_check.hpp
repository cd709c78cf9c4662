// What a graph must obey for the rest of the compiler to trust it.
#pragma once

#include <functional>

#include "compiler/graph/graph.hpp"

namespace weft {

/// Names are unique identifiers, arguments refer to earlier nodes, getitem
/// reads a value that exists, outputs and mutations name nodes of the graph,
/// sizes are not negative, and texts that become Python source hold no other
/// code (printed_text.hpp). wrong_input names the first node that breaks it.
Result<void> check_graph(const Graph& graph);

/// Calls `visit` for every node that the arguments mention, in order, once a
/// mention, also inside lists.
void for_each_ref(const Node& node,
                  const std::function<void(const std::string&)>& visit);

/// Replaces the names of nodes that the arguments mention.
void rename_refs(Node& node,
                 const std::function<std::string(const std::string&)>& rename);

}  // namespace weft
