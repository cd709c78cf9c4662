// What was measured of a right kernel, in words for a language model: its
// times, what its built code shows, and the one thing that limits it.
#pragma once

#include <string>
#include <vector>

#include "messages/vocabulary.hpp"

namespace weft {

/// "1.84x eager (95 % interval 1.8 to 1.9), 1.2x torch.compile; 5.1 us where
/// eager took 9.4 us in the same rounds", as far as it was measured.
std::string times_text(const Timing& timing);

/// "12 % faster than", "3 % slower than", "as fast as".
std::string gain_text(double gain);

/// The kind of work of a kernel, and its place.
struct Situation {
  /// It has matrix products or convolutions, which moving bytes is no measure
  /// of.
  bool multiplies = false;
  bool on_gpu = false;
  /// The least time by the device's rates; 0: nothing bounds it, or it is not
  /// known. Timing::floor_us goes before it.
  double floor_us = 0;
  /// That time is of arithmetic, not of moving bytes.
  bool computes = false;
  /// It has too little arithmetic to be limited by instructions.
  bool is_light = false;
};

struct Bottleneck {
  std::string text;    ///< one thing, with the figures that say so
  std::string method;  ///< to try against it
};

/// The bottleneck of a right and timed kernel. The method is one that was not
/// offered to `history`, while there is one.
Bottleneck bottleneck_of(const SeedResult& result, const Situation& situation,
                         const std::vector<SeedResult>& history);

}  // namespace weft
