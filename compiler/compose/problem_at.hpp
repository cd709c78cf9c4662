// A problem file at other sizes of some dimensions of its inputs: the same
// text, whose get_inputs() gives more or fewer rows. Whoever reads a problem
// file knows nothing of it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/graph/symbolic_shapes.hpp"
#include "messages/run.hpp"

namespace weft {

/// A size for each of these places.
std::string problem_at(std::string_view problem, const Sizes& sizes,
                       std::span<const SymbolicDim> dims);

}  // namespace weft
