// Wall time since it was made.
#pragma once

#include <chrono>
#include <cstdint>

namespace weft {

class Stopwatch {
 public:
  std::int64_t elapsed_ms() const {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

}  // namespace weft
