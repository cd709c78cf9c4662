// Code for any size of a model: what is printed for some sizes, less what they
// have not in common. So a code generator knows extents that are numbers, and
// where it goes by more of one than how long a loop is (whether it is a
// multiple of a vector, or a row fits a cache), the texts differ and there is
// none.
#pragma once

#include <functional>

#include "compiler/compose/target.hpp"

namespace weft {

/// The size's name, as a kernel's last parameter and in Python.
inline constexpr std::string_view kKernelSize = "batch";
inline constexpr std::string_view kPythonSize = "_weft_batch";

/// Those variants of a subgraph that grows whose texts, printed by `generate`
/// for each of its sample sizes (the graph at it, which grows still), have one
/// text in common. An error if none has.
Result<std::vector<KernelSource>> sources_for_sizes(
    const Subgraph& subgraph,
    const std::function<Result<std::vector<KernelSource>>(const Subgraph&)>&
        generate);

/// The same of Python, which `print` gives for a size of that graph, and which
/// finds the size in a variable. Where nothing grows, it is printed once.
Result<std::string> python_for_sizes(
    const Graph& graph,
    const std::function<Result<std::string>(std::int64_t)>& print);

}  // namespace weft
