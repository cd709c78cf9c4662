// What the kernel library files a subgraph's kernel under.
#pragma once

#include "messages/vocabulary.hpp"

namespace weft {

/// The library's name as a source of seeds, and as their origin.
inline constexpr const char* kLibrarySource = "library";

KernelKey kernel_key(const OptimizeSubgraph& work);

}  // namespace weft
