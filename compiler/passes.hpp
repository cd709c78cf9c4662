// Passes that make a captured graph smaller and leave what it computes alone.
#pragma once

#include "compiler/graph.hpp"

namespace weft {

/// Drops calls that nothing needs. Random and in-place calls stay, used or
/// not: what they do to the generator and to memory is part of the model.
/// Placeholders stay too.
Graph eliminate_dead_code(Graph graph);

/// Makes equal calls of equal arguments one call. Random calls are never
/// equal; a graph with in-place calls is left alone; two results that both
/// leave the model stay apart, so that they are two tensors as in eager mode.
Graph eliminate_common_subexpressions(Graph graph);

}  // namespace weft
