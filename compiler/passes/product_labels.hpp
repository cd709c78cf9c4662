// Matrix products as einsum labels: one letter for each dimension.
#pragma once

#include <optional>
#include <string>

#include "compiler/passes/node_index.hpp"

namespace weft {

/// One letter for each dimension. Dimensions that are multiplied with each
/// other have the same letter.
using Labels = std::string;

inline bool has(const Labels& labels, char label) {
  return labels.find(label) != Labels::npos;
}

struct ProductLabels {
  const Node* left = nullptr;
  const Node* right = nullptr;
  Labels of_left;
  Labels of_right;
  Labels of_result;
};

/// Labels of mm, bmm, matmul of equal ranks, baddbmm's product, and einsum of
/// two operands in which no label occurs twice. Empty for other calls.
std::optional<ProductLabels> product_labels(const NodeIndex& index,
                                            const Node& call);

/// The source's labels, if a view (permute, transpose, t and the like) permutes
/// its dimensions into `labels`. Empty for other calls.
std::optional<Labels> before_permuting(const NodeIndex& index, const Node& call,
                                       const Labels& labels);

}  // namespace weft
