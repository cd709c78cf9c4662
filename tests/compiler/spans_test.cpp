#include "compiler/lowering/operators/spans.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace weft;

namespace {

bool reads(const Span& span, std::int64_t point, std::int64_t element) {
  return span.first(point).offset() <= element &&
         element < span.end(point).offset();
}

}  // namespace

TEST_CASE("Adaptive windows and the windows of an element are the same pairs") {
  for (std::int64_t count = 1; count <= 12; ++count) {
    for (std::int64_t source = 1; source <= 12; ++source) {
      const Span windows = adaptive_span(count, source);
      const Span elements = adaptive_span(source, count);
      for (std::int64_t w = 0; w < count; ++w) {
        for (std::int64_t e = 0; e < source; ++e) {
          CAPTURE(count);
          CAPTURE(source);
          CAPTURE(w);
          CAPTURE(e);
          // PyTorch's: floor(w · source / count) up to the next, rounded
          // up.
          const bool is_in = w * source / count <= e &&
                             e < ((w + 1) * source + count - 1) / count;
          CHECK(reads(windows, w, e) == is_in);
          CHECK(reads(elements, e, w) == is_in);
        }
      }
    }
  }
}

TEST_CASE("A span knows its longest run, and whether all are as long") {
  CHECK(adaptive_span(4, 8).taps == 2);
  CHECK(adaptive_span(4, 8).is_even);
  CHECK(adaptive_span(8, 4).taps == 1);
  CHECK(adaptive_span(8, 4).is_even);
  CHECK(adaptive_span(3, 7).taps == 3);
  CHECK(adaptive_span(3, 9).is_even);
  CHECK_FALSE(adaptive_span(3, 8).is_even);
}
