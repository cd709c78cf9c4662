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

/// Replaces writes of all pieces of a tensor (out[:, t] = h) by a stack, and
/// reads of a piece by the value written there.
Graph join_written_pieces(Graph graph);

/// Splits an einsum of three or more operands into einsums of two operands; the
/// pair with the smallest result comes first. Calls whose results leave the
/// model stay.
Graph einsum_by_pairs(const Graph& graph);

/// How a causal mask is passed to scaled_dot_product_attention: by its flag or
/// as an explicit mask like any other. With the flag, the operator leaves
/// masked elements out; the NaNs that keys without a query produce in the model
/// are added afterwards.
enum class AttentionMasks { causal_flag, explicit_mask };

struct FusedAttention {
  Graph graph;
  std::vector<std::string> calls;  ///< of the operator, that were made
  bool has_causal = false;         ///< the masks could be told
};

/// Replaces attention that the model writes out (two products around a softmax)
/// by calls of scaled_dot_product_attention. Results are close but not equal;
/// verification decides whether they are correct.
FusedAttention fuse_attention(const Graph& graph, AttentionMasks masks);

/// Splits convolutions that stay extern into one without bias and an addition,
/// if generated kernels follow. The addition becomes part of such a kernel. On
/// a GPU, PyTorch adds the bias in a kernel of its own, too.
Graph separate_bias(Graph graph, const Lowerable& lowerable);

/// Replaces TF32 transposed convolutions of volumes with stride 1 by ordinary
/// convolutions with a flipped window. The products are the same. cuDNN's
/// kernels for these are two to seven times as fast on an
/// H200 (2026-11-22).
Graph transposed_to_forward_convolution(const Graph& graph);

/// A graph, and its calls that must not be fused with others.
struct Relaid {
  Graph graph;
  NoFuse no_fuse;
  /// Bytes of a convolution's layout copies that no other kernel moves anyway,
  /// by the convolution's name. Such a convolution may be faster in the old
  /// layout.
  std::map<std::string, double> copied_bytes{};
};

/// Converts extern TF32 convolutions to channels-last memory format, for which
/// cuDNN is faster: their inputs are copied into that layout, their results out
/// of it. A copy is fused into a neighbouring generated kernel, unless that
/// kernel would read or write scattered single elements; then the copy stays a
/// kernel of its own. Convolutions in float32 are left alone, because cuDNN may
/// choose TF32 in another layout.
Relaid convolve_channels_last(const Graph& graph, const Lowerable& lowerable,
                              const FusionChoices& choices = {});

}  // namespace weft
