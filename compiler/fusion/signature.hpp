// The canonical name of a piece of work: equal pieces, wherever they stand
// and whatever their tensors are called, get equal signatures and ids.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace weft {

/// One line an input, a call, an output: operators, arguments, dtypes, shapes
/// and strides; no names of the model and no source lines. The graph must be
/// canonically named already (x0, x1, … and t0, t1, …).
std::string signature_of(const Graph& graph);

/// FNV-1a, 64 bit (Fowler, Noll, Vo; draft-eastlake-fnv): the same on every
/// machine. Not cryptographic, which is why fresh_id() looks for collisions.
std::uint64_t fnv1a64(std::string_view text);

using Hash = std::function<std::uint64_t(std::string_view)>;

/// "sg_" and 12 hex digits of the signature's hash. Where `taken` (id →
/// signature) has that id for another signature, the signature with "#1", "#2"
/// … appended is hashed instead: the same for the same model, every time.
std::string fresh_id(const std::string& signature,
                     const std::map<std::string, std::string>& taken,
                     const Hash& hash = fnv1a64);

/// "2,3"
std::string numbers_text(const std::vector<std::int64_t>& numbers);

/// "float32[2,3]": dtype, shape.
std::string shape_text(const TensorType& type);

/// "float32[2,3]{3,1}": dtype, shape, stride.
std::string type_text(const TensorType& type);

}  // namespace weft
