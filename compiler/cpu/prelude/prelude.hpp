// The C++ that every generated CPU kernel starts with: vector types of `lanes`
// elements, loads and stores with tails, reducers and the mathematical
// functions, written so that one text serves any SIMD width.
#pragma once

#include <string>

namespace weft {

/// `stream_stores`: full vectors go past the cache. `free_rounding`: see
/// LoweringOptions.
std::string cpu_prelude(int vector_width, bool stream_stores, bool free_rounding);

}  // namespace weft
