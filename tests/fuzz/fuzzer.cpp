// libFuzzer's entry: the decoder whose name the program was built with.
#include <cstdint>

#include "tests/fuzz/decoders.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  static const auto& decode = weft::fuzz::decoders().at(WEFT_FUZZ_DECODER);
  decode({reinterpret_cast<const char*>(data), size});
  return 0;
}
