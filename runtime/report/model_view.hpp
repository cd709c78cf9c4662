// The model of a run as boxes and arrows: a box a placed subgraph or an
// operator that stays the framework's.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "compiler/graph/subgraph.hpp"

namespace weft {

/// {nodes: [{id, kind, label, type, subgraph?}], edges: [[from, to]], left_out}
/// with at most `nodes_max` nodes, in execution order. Kinds: "input",
/// "subgraph", "extern", "output".
nlohmann::json model_view(const Plan& plan, std::size_t nodes_max);

/// Arithmetic of a graph: products as count_products() has them; of any other
/// operator that computes, one for each element that it reads or writes,
/// whichever are more. An estimate, for the position on a roofline.
double operation_count(const Graph& graph);

/// Bytes of a graph's inputs and outputs, each once.
double traffic_bytes(const Graph& graph);

/// "f32[64,96]": the first result of a node; empty: it is no tensor.
std::string type_text(const Node& node);

}  // namespace weft
