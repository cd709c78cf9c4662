// A device class: everything that must be equal between two devices before
// their verdicts and timings may be compared. Plain data; the rules
// are in actors/capabilities.hpp.
#pragma once

#include <cstdint>
#include <string>

#include "messages/fields.hpp"

namespace weft {

struct DeviceClass {
  std::string device;  ///< The name of the GPU or processor.
  std::string torch;
  // A GPU has these; they are empty or 0 for a processor.
  std::string arch;  ///< "sm_90".
  std::int64_t memory_bytes = 0;
  std::string driver;
  std::string triton;
  // A processor has these; they are empty or 0 for a GPU.
  int vector_bytes = 0;
  int cores = 0;
  std::string compiler;  ///< "g++ 12.2.0".
  WEFT_FIELDS(device, arch, memory_bytes, driver, vector_bytes, cores, compiler,
              torch, triton)
  bool operator==(const DeviceClass&) const = default;
};

}  // namespace weft
