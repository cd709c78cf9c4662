// The Python around an embedded C++ kernel: the loader that builds and opens
// it, and a function of tensors that calls it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/subgraph.hpp"

namespace weft {

/// The loader: `_weft_build(source)` opens the library of a C++ text, built
/// with these flags if the cache does not have it. The file's name is the
/// first 32 hex digits of sha256(source and flags, with NUL between) and
/// ".so"; it lies in WEFT_BUILT_KERNELS if it is there, else in a folder per
/// processor, compiler, Python and PyTorch below WEFT_KERNEL_CACHE if set, else
/// below XDG_CACHE_HOME or ~/.cache, else in a fresh private folder.
std::string loader_source(const std::vector<std::string>& build_flags);

/// Its parts that other targets use too: `_weft_cache()`, the folder;
/// `_weft_restride(tensor, shape, stride)`; and for a GPU `_weft_built()`, what
/// the run has built, `_WeftLaunches`, which starts kernels, and
/// `_weft_where_inputs_are(function)`.
std::string cache_source();
std::string launch_source();
std::string restride_source();

/// Lines with which a function's body begins: the sizes, where the graph is
/// symbolic, and what brings inputs into the captured layout.
std::string opening_lines(const Graph& graph, const std::string& name);

/// `def <name>(x0, …)` that restrides what lies otherwise than captured,
/// allocates the outputs and calls the kernel; and the line that opens it.
std::string kernel_function_source(const Graph& graph, const std::string& name,
                                   std::string_view cpp_source);

/// `def <name>(x0, …)` for a target whose kernels a Python expression opens
/// once, when the module is imported: `opening`. What it opens is called with
/// the inputs and, where the graph is symbolic, the sizes. The module
/// returns `before` + call + `after`.
std::string opened_function_source(const Graph& graph, const std::string& name,
                                   const std::string& opening,
                                   const std::string& before = "",
                                   const std::string& after = "");

}  // namespace weft
