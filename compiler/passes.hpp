// Passes over a captured graph that leave what it computes alone.
#pragma once

#include "compiler/cluster.hpp"
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

/// Convolutions that stay the framework's, with a bias and calls of ours
/// behind them, become one without and an addition, which then is part of our
/// kernel: on a GPU the framework adds it in a kernel of its own, too.
Graph separate_bias(Graph graph, const Lowerable& lowerable);

}  // namespace weft
