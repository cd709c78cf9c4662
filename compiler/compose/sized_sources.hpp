// Code for any sizes of a model: the common text of what is generated for
// several sizes. The code generator sees extents that are numbers. If a
// decision depends on a symbolic extent in more than a loop's length (whether
// it is a multiple of a vector, or a row fits a cache), the texts differ and
// there is no code.
#pragma once

#include <functional>
#include <span>

#include "compiler/compose/target.hpp"

namespace weft {

/// Names of the sizes as a kernel's last parameters, and in Python.
std::span<const std::string_view> kernel_sizes(std::size_t symbols);
std::span<const std::string_view> python_sizes(std::size_t symbols);

/// Lines of Python, indented by `in`, that set those variables. `dim` gives the
/// text of a dimension that is read. "" if no tensor of the graph shows a size.
std::string size_lines(
    const Graph& graph, const std::string& in,
    const std::function<std::string(const SizeSource&)>& dim);

/// Variants of a symbolic subgraph whose texts, generated for each of its
/// samples (the still symbolic graph at that size), have a common text. An
/// error if no variant has.
Result<std::vector<KernelSource>> sources_for_sizes(
    const Subgraph& subgraph,
    const std::function<Result<std::vector<KernelSource>>(const Subgraph&)>&
        generate);

/// The same for Python, which `print` gives for sizes of that graph, and which
/// reads the sizes from variables. If nothing is symbolic, it is printed once.
Result<std::string> python_for_sizes(
    const Graph& graph,
    const std::function<Result<std::string>(const Sizes&)>& print);

}  // namespace weft
