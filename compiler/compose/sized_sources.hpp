// Code for any sizes of a model: what is printed for some of them, less what
// they have not in common. So a code generator knows extents that are numbers,
// and where it goes by more of one than how long a loop is (whether it is a
// multiple of a vector, or a row fits a cache), the texts differ and there is
// none.
#pragma once

#include <functional>
#include <span>

#include "compiler/compose/target.hpp"

namespace weft {

/// The sizes' names, as a kernel's last parameters and in Python, of so many
/// symbols.
std::span<const std::string_view> kernel_sizes(std::size_t symbols);
std::span<const std::string_view> python_sizes(std::size_t symbols);

/// Lines of Python, indented by `in`, that set those variables; `dim` gives the
/// text of a dimension that is read. "" where no tensor of the graph shows one.
std::string size_lines(
    const Graph& graph, const std::string& in,
    const std::function<std::string(const SizeSource&)>& dim);

/// Those variants of a subgraph that grows whose texts, printed by `generate`
/// for each of its samples (the graph at it, which grows still), have one
/// text in common. An error if none has.
Result<std::vector<KernelSource>> sources_for_sizes(
    const Subgraph& subgraph,
    const std::function<Result<std::vector<KernelSource>>(const Subgraph&)>&
        generate);

/// The same of Python, which `print` gives for sizes of that graph, and which
/// finds the sizes in variables. Where nothing grows, it is printed once.
Result<std::string> python_for_sizes(
    const Graph& graph,
    const std::function<Result<std::string>(const Sizes&)>& print);

}  // namespace weft
