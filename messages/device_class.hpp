// A device class: everything that must be equal between two devices before
// their verdicts and timings may be compared. Plain data; the rules
// are in actors/capabilities.hpp.
#pragma once

#include <cstdint>
#include <string>

#include "messages/fields.hpp"

namespace weft {

struct DeviceClass {
  std::string device;             ///< the GPU's or processor's own name
  std::string arch;               ///< "sm_90"; empty: a processor
  std::int64_t memory_bytes = 0;  ///< of a GPU
  std::string driver;             ///< of a GPU
  int vector_bytes = 0;           ///< of a processor
  int cores = 0;                  ///< of a processor
  std::string compiler;           ///< that builds for a processor: "g++ 12.2.0"
  std::string torch;
  std::string triton;  ///< where the run's kernels are for a GPU
  WEFT_FIELDS(device, arch, memory_bytes, driver, vector_bytes, cores, compiler,
              torch, triton)
  bool operator==(const DeviceClass&) const = default;
};

}  // namespace weft
