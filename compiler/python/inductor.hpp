// TorchInductor's targets: a subgraph's graph, which it compiles into one
// Python file, and such a file as a kernel. The latter is loaded as any Python
// file is, but may call PyTorch's operators, as Inductor's code does,
// unless it is built for kInductorOwn.
#pragma once

#include "compiler/compose/target.hpp"

namespace weft {

inline constexpr std::string_view kInductorGraph = "inductor-graph";
inline constexpr std::string_view kInductorTarget = "inductor";
/// What such a file is built for in a run with --no-extern.
inline constexpr std::string_view kInductorOwn = "inductor-no-extern";

Target inductor_graph_target();
Target inductor_target();
Target inductor_own_target();

}  // namespace weft
