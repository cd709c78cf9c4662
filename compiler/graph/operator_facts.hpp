// What the rest of the compiler must know of single ATen operators: which
// return views, which draw random numbers, which write in place.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// "add" of "aten.add.Tensor"; "getitem" of "getitem".
std::string_view operator_name(std::string_view target);

/// The result aliases the first argument; PyTorch makes it for free.
bool is_view(std::string_view target);

/// A view that returns several: each is read through a getitem.
bool is_split(std::string_view target);

/// Values are moved, none is computed: clone, contiguous, copy.
bool is_copy(std::string_view target);

/// The result depends on no tensor's values: full, zeros_like, arange.
bool is_fill(std::string_view target);

/// Sums of products, which matrix units may compute: mm, convolution, einsum.
bool is_product(std::string_view target);

/// Draws from the generator (or may): it must run exactly as often, and in
/// the same order, as in the model.
bool is_random(std::string_view target);

/// Has an effect beside its result: random, written in place, an assertion.
bool is_impure(std::string_view target);

/// How people call it: "layer_norm" for "aten.native_layer_norm.default".
std::string spoken_name(std::string_view target);

}  // namespace weft
