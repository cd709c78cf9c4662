// Passes over a captured graph that leave what it computes alone.
#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/choices/fusion_choices.hpp"
#include "compiler/fusion/cluster.hpp"
#include "compiler/graph/graph.hpp"

namespace weft {

/// Drops calls that nothing needs. Random and in-place calls stay, used or
/// not: what they do to the generator and to memory is part of the model.
/// Placeholders stay too.
Graph eliminate_dead_code(Graph graph);

/// Makes equal calls of equal arguments one call. Random calls are never
/// equal; a graph with in-place calls is left alone; two results that both
/// leave the model stay apart, so that they are two tensors as in eager mode.
Graph eliminate_common_subexpressions(Graph graph);

/// Whether some call writes into its arguments.
bool writes_in_place(const Graph& graph);

/// Nodes whose memory leaves the model: outputs, new values of buffers, and
/// whatever these are views of.
std::set<std::string> escaping_nodes(const Graph& graph);

/// What is written piece by piece, out[:, t] = h, and all of it, is stacked;
/// and a piece that is read back is what was written there.
Graph join_written_pieces(Graph graph);

/// An einsum of three operands or more becomes one of two after the other, the
/// pair that leaves least first. What leaves the model stays as it is.
Graph einsum_by_pairs(const Graph& graph);

/// Whether a causal mask is told to the operator, which then leaves out what is
/// masked (and what keys that nobody sees make nan in the model is added
/// back), or given to it as any other mask is.
enum class AttentionMasks { told, given };

struct FusedAttention {
  Graph graph;
  std::vector<std::string> calls;  ///< of the operator, that were made
  bool has_causal = false;         ///< the masks could be told
};

/// Attention that the model writes out, products about a softmax, becomes one
/// call of scaled_dot_product_attention each. It is near to what it stands
/// for, not equal: whether it is right is for a verdict.
FusedAttention fuse_attention(const Graph& graph, AttentionMasks masks);

/// Convolutions that stay the framework's, with a bias and calls of ours
/// behind them, become one without and an addition, which then is part of our
/// kernel: on a GPU the framework adds it in a kernel of its own, too.
Graph separate_bias(Graph graph, const Lowerable& lowerable);

/// Transposed convolutions in TF32 of volumes that step by one become ordinary
/// ones with their window flipped, of the same products: for those the
/// library has kernels that are two to seven times as fast
/// (docs/experiments/2026-11-25-lab-notes.md).
Graph convolve_forward(const Graph& graph);

/// A graph, and its calls that must not be fused with others.
struct Relaid {
  Graph graph;
  std::set<std::string> apart;
  /// Bytes that some convolution's copies move that no other kernel does, by
  /// the convolution's name: where they stay in the old layout may be faster.
  std::map<std::string, double> copied_bytes{};
};

/// Convolutions in TF32 that stay the framework's work on images whose channels
/// are innermost in memory, as the library is faster so: what they read is
/// copied into that layout, and what they make back out of it. Either copy
/// becomes part of a kernel of ours beside it, where that does not read or
/// write in scattered single elements; else it stands apart. Those in float32
/// are left alone: in another layout the library may choose TF32.
Relaid convolve_channels_last(const Graph& graph, const Lowerable& lowerable,
                              const FusionChoices& choices = {});

}  // namespace weft
