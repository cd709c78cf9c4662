// The difference of two texts, line by line, for people and language models.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Removed lines begin with "- ", added ones with "+ ", and each change is
/// preceded by up to one equal line. "…" stands for equal lines that are left
/// out. No more than `lines_max` lines; empty: the texts are equal. Texts of
/// more than 4000 lines are compared by their common head and tail only.
std::string line_diff(std::string_view before, std::string_view after,
                      std::size_t lines_max);

}  // namespace weft
