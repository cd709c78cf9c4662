// The part of a CUDA source that is the same for every kernel: vectors of
// elements, folds, and how threads, blocks and clusters combine their partials.
#pragma once

#include <set>
#include <string>

namespace weft {

/// Sections by name, with what they need: "vectors", "folds", "arg_folds",
/// "exponentials", "spread", "block", "columns", "cluster", "team", "ring",
/// "scan", "windows".
std::string cuda_prelude(const std::set<std::string>& sections);

}  // namespace weft
