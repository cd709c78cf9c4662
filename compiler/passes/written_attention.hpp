// Attention as a model writes it out: queries by keys, scaled and masked, a
// softmax over the keys, by values. Found by what the calls do, whatever lies
// between them that only moves or casts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/passes/product_labels.hpp"

namespace weft {

/// What happens to scores on their way into the softmax, scales aside.
struct MaskStep {
  enum class Kind {
    added,       ///< scores + mask
    subtracted,  ///< scores - mask
    filled,      ///< where mask is true, fill
    unfilled,    ///< where mask is false, fill
  };
  Kind kind = Kind::added;
  const Node* mask = nullptr;
  double fill = 0;
  std::size_t rank = 0;  ///< of the scores there

  bool fills() const { return kind == Kind::filled || kind == Kind::unfilled; }
};

/// A tensor, and for each of its dimensions the role: 'b' and 'h' are the
/// batch's in their order, 's' runs along the sequence, 'f' along features.
struct AttentionOperand {
  const Node* node = nullptr;
  Labels labels;
};

struct WrittenAttention {
  AttentionOperand query, key, value;
  double scale = 1;
  std::vector<MaskStep> steps;  ///< in the order in which they are applied
  std::int64_t images = 1;      ///< the batch's two extents: with one or none,
  std::int64_t heads = 1;       ///< the others are 1
  std::int64_t queries = 0, keys = 0, features = 0, value_features = 0;
  Labels result;  ///< roles of the dimensions of what it gives
};

/// What the call, a product, is the last of; nothing if of no attention that
/// the library's operator computes. Not found, among others: scores or weights
/// that something else reads, a softmax over other dimensions, what is added,
/// scaled or dropped behind the softmax, a scale that is no number, a scale
/// behind a mask, a fill that leaves masked keys a weight, and masks of
/// another type than the queries.
std::optional<WrittenAttention> written_attention(const NodeIndex& index,
                                                  const Node& last);

}  // namespace weft
