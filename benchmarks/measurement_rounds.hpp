// How a benchmark measures: both sides turn by turn, several rounds, medians.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace weft::benchmark {

inline void require(bool good, const std::string& what) {
  if (good) return;
  std::fprintf(stderr, "benchmark: %s\n", what.c_str());
  std::exit(1);
}

inline double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

inline double median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace weft::benchmark
