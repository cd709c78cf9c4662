// What was measured of a right kernel, in words for a language model: its
// times, what its built code shows, and the one thing that limits it.
#pragma once

#include <string>
#include <vector>

#include "messages/vocabulary.hpp"

namespace weft {

/// "4.2 us", beside the others' times, as far as they were measured.
std::string times_text(const Timing& timing);

struct Bottleneck {
  std::string text;    ///< one thing, with the figures that say so
  std::string method;  ///< to try against it
};

/// Of a right and timed kernel. `multiplies`: what it computes has matrix
/// products or convolutions, which moving bytes is no measure of. The method is
/// one that `history` did not try, while there is one.
Bottleneck bottleneck_of(const SeedResult& result, bool multiplies,
                         const std::vector<SeedResult>& history);

}  // namespace weft
