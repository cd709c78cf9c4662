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

/// A row of a reference's INPUTS: shape and stride as Python lists.
std::string spec_row(const std::string& shape, const std::string& stride,
                     const std::string& dtype);

/// The whole file, of its parts. `title` is one line.
std::string reference_file(const std::string& title, const std::string& inputs,
                           const std::string& outputs,
                           const std::string& function);

}  // namespace weft
