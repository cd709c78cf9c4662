// Products of matrices by the letters of their dimensions, as einsum has them.
#pragma once

#include <optional>
#include <string>

#include "compiler/passes/node_index.hpp"

namespace weft {

/// A letter for each dimension; the same in what is multiplied has one name.
using Letters = std::string;

inline bool has(const Letters& letters, char letter) {
  return letters.find(letter) != Letters::npos;
}

struct ProductLetters {
  const Node* left = nullptr;
  const Node* right = nullptr;
  Letters of_left;
  Letters of_right;
  Letters of_result;
};

/// Of mm, bmm, matmul of equal ranks, baddbmm's product, and einsum of two
/// operands in which no letter stands twice. Nothing of other calls.
std::optional<ProductLetters> product_letters(const NodeIndex& index,
                                              const Node& call);

/// The source's letters, where a view permutes its dimensions into those: of
/// permute, transpose, t and their like. Nothing of other calls.
std::optional<Letters> before_permuting(const NodeIndex& index,
                                        const Node& call,
                                        const Letters& letters);

}  // namespace weft
