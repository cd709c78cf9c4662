// The JSON form of a graph (docs/reference/graph.md) as a value, for files that
// hold graphs among other things.
#pragma once

#include <nlohmann/json.hpp>

#include "compiler/graph/graph.hpp"

namespace weft {

/// Keeps the order of fields: the same graph is always the same text.
using Json = nlohmann::ordered_json;

Json graph_to_value(const Graph& graph);

/// wrong_input names the node that does not fit.
Result<Graph> graph_from_value(const Json& value);

Json arg_to_value(const Arg& arg);

/// One size is a number, and several are a list.
Json sizes_to_value(const Sizes& sizes);

/// The strings of a list of strings, or wrong_input that names `what`.
Result<std::vector<std::string>> strings_from_value(const Json& value,
                                                    const std::string& what);

}  // namespace weft
