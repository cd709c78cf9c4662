// What is read more than once: made each time, or made once and kept.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/lowering/lower.hpp"

namespace weft {
namespace {

// A product's factor of more reads is kept: of 40 reads (a concatenation of
// windows, normalised, in front of a linear layer), Triton made 2.3 MB of
// shared memory, and took 13 s (2026-11-28).
constexpr std::ptrdiff_t kFactorReadsMax = 12;

Position anywhere_in(Lowering& in, const Shape& shape) {
  Position at;
  for (const std::int64_t extent : shape) {
    at.push_back(Index(in.new_variable(extent)));
  }
  return at;
}

}  // namespace

Virtual Lowering::factor(const Virtual& value) {
  const Virtual factor =
      is_half(result_type_) ? rounded(value, result_type_) : value;
  const auto reads = std::ranges::count_if(
      expressions_of(factor),
      [&](ExprId id) { return arena()[id].op == ScalarOp::load; });
  return reads > kFactorReadsMax ? materialized(factor) : factor;
}

Virtual Lowering::materialized(const Virtual& value) {
  // Reducing nothing away leaves each element.
  return reduce(Reduction::max, value, {})[0];
}

Virtual Lowering::materialized_for_windows(const Virtual& value, double times,
                                           std::size_t dims) {
  const Position at = anywhere_in(*this, value.shape());
  std::map<int, LoopVar> walked;
  for (std::size_t i = at.size() - dims; i < at.size(); ++i) {
    at[i].collect(walked);
  }
  // What is the same along these dimensions is made once for all.
  std::set<ExprId> differing;
  for (const ExprId id : arena().reachable({value.at(at)})) {
    const Scalar& node = arena()[id];
    const bool moves = std::ranges::any_of(node.index, [&](const Index& index) {
      return std::ranges::any_of(walked, [&](const auto& variable) {
        return index.uses(variable.first);
      });
    });
    if (moves || std::ranges::any_of(node.arguments, [&](ExprId argument) {
          return differing.contains(argument);
        })) {
      differing.insert(id);
    }
  }
  if (differing.size() <= 1) return value;  // it is read, and not made
  const double most =
      static_cast<double>(options_.choices.window_operations_max);
  return times * static_cast<double>(differing.size()) > most
             ? materialized(value)
             : value;
}

std::vector<ExprId> Lowering::expressions_of(const Virtual& value) {
  return arena().reachable({value.at(anywhere_in(*this, value.shape()))});
}

}  // namespace weft
