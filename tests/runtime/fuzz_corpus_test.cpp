// What the fuzzers found worth keeping (tests/fuzz/corpus), once more.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/decoders.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

TEST_CASE("no input that the fuzzers kept breaks a decoder") {
  for (const auto& [name, decode] : fuzz::decoders()) {
    CAPTURE(name);
    int count = 0;
    for (const auto& entry :
         fs::directory_iterator(fs::path(WEFT_FUZZ_CORPUS) / name)) {
      CAPTURE(entry.path().string());
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(file)), {});
      decode(bytes);
      // Cut short anywhere it is no worse.
      for (std::size_t size = 0; size < bytes.size(); size += 7) {
        decode(std::string_view(bytes).substr(0, size));
      }
      ++count;
    }
    CHECK(count > 0);
  }
}

}  // namespace
}  // namespace weft
