// Names of partitions that only timing can tell apart, as reports show them.
#pragma once

namespace weft {

/// Matrix products, convolutions and attention are generated kernels.
inline constexpr const char* kGeneratedContractions = "generated contractions";
inline constexpr const char* kVendorContractions =
    "the vendor library's contractions";

}  // namespace weft
