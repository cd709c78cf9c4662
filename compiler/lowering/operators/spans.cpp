#include "compiler/lowering/operators/spans.hpp"

#include <algorithm>
#include <numeric>

namespace weft {

Span::Span(std::int64_t points, std::int64_t elements, Bound from, Bound to)
    : count(points),
      source(elements),
      first(std::move(from)),
      end(std::move(to)) {
  std::int64_t least = elements;
  for (std::int64_t p = 0; p < points; ++p) {
    const std::int64_t length = end(p).offset() - first(p).offset();
    taps = std::max(taps, length);
    least = std::min(least, length);
  }
  is_even = least == taps;
}

Span adaptive_span(std::int64_t count, std::int64_t source) {
  const std::int64_t common = std::gcd(count, source);
  const std::int64_t up = source / common;
  const std::int64_t down = count / common;
  return Span(
      count, source,
      [=](const Index& point) { return floor_div(point * up, down); },
      [=](const Index& point) {
        return floor_div(point * up + (up + down - 1), down);
      });
}

Shape dims_before(const Shape& shape, std::size_t rank) {
  if (shape.size() < rank) throw Unsupported{"windows of such dimensions"};
  return Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(rank));
}

Virtual shares(DType dtype, const Shape& before, const std::vector<Span>& spans,
               Lowering& in, const Share& share) {
  const std::size_t outer = before.size();
  const std::size_t rank = spans.size();
  Shape shape = before;
  for (const Span& span : spans) shape.push_back(span.count);
  for (const Span& span : spans) shape.push_back(span.taps);
  return Virtual(dtype, shape, [=, &in](const Position& at) {
    const Position point(at.begin(), at.begin() + outer + rank);
    Position element(at.begin(), at.begin() + outer);
    Guard guard;
    for (std::size_t i = 0; i < rank; ++i) {
      const Span& span = spans[i];
      element.push_back(span.first(at[outer + i]) + at[outer + rank + i]);
      if (span.is_even) continue;
      ScalarArena& arena = in.arena();
      guard =
          in.both(guard, arena.call("lt", DType::boolean,
                                    {arena.position(element.back()),
                                     arena.position(span.end(at[outer + i]))}));
    }
    return share(point, element, guard);
  });
}

Virtual sum_of_shares(DType dtype, const Shape& before,
                      const std::vector<Span>& spans, Lowering& in,
                      const Share& share) {
  const std::size_t rank = spans.size();
  const Virtual all = shares(dtype, before, spans, in, share);
  if (std::ranges::any_of(spans, [](const Span& s) { return s.taps > 1; })) {
    return in.reduce(Reduction::sum, all, last_dims(all, rank))[0];
  }
  Shape shape = before;
  for (const Span& span : spans) shape.push_back(span.count);
  return Virtual(dtype, shape, [=](const Position& at) {
    Position only = at;
    only.insert(only.end(), rank, Index(0));
    return all.at(only);
  });
}

}  // namespace weft
