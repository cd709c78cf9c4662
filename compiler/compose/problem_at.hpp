// A problem file at another batch: the same text, whose get_inputs() gives more
// or fewer rows. Whoever reads a problem file knows nothing of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

std::string problem_at(std::string_view problem, std::int64_t batch);

}  // namespace weft
