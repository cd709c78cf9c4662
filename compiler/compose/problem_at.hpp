// A problem file at another size of one dimension of its inputs: the same text,
// whose get_inputs() gives more or fewer rows. Whoever reads a problem file
// knows nothing of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// `input` (-1: the first that is a tensor) and `dim` say which dimension.
std::string problem_at(std::string_view problem, std::int64_t size, int input,
                       int dim);

}  // namespace weft
