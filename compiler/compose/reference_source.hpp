// A subgraph as a Python function of ATen calls.
#pragma once

#include <string>

#include "compiler/graph/subgraph.hpp"
#include "compiler/text/python_text.hpp"

namespace weft {

/// `def <name>(x0, x1, …):` that returns the output, or a tuple of several.
std::string python_function(const Graph& graph, const std::string& name,
                            Precision precision);

/// The names of the subgraph's inputs, in order.
std::vector<std::string> input_names(const Graph& graph);

/// The type of a node that holds one tensor.
const TensorType& tensor_type(const Graph& graph, const std::string& name);

}  // namespace weft
