// Indices that a value gives: whether they can be outside, and the check where
// they can. PyTorch raises there, so a kernel may neither read another
// element nor go on with zeros.
#include <algorithm>

#include "compiler/lowering/lower.hpp"

namespace weft {
namespace {

// What an index read from memory may be. Far from overflow, so that sums of a
// few such bounds stay right.
constexpr std::int64_t kAny = std::int64_t{1} << 60;

struct Range {
  std::int64_t least = -kAny;
  std::int64_t most = kAny;
};

std::int64_t bounded(std::int64_t value) {
  return std::clamp(value, -kAny, kAny);
}

bool is_argument(const Scalar& node) {
  return node.dtype == DType::i64 || node.dtype == DType::i32;
}

// Bounds of integer expressions; what is not known may be anything.
class Bounds {
 public:
  explicit Bounds(const Program& program) : program_(program) {}

  Range of(ExprId id) const {
    const Scalar& node = program_.arena[id];
    switch (node.op) {
      case ScalarOp::constant:
        if (!is_argument(node)) return {};
        return {bounded(node.integer), bounded(node.integer)};
      case ScalarOp::position: {
        const auto [least, most] = node.index[0].range();
        return {bounded(least), bounded(most)};
      }
      case ScalarOp::load:
        return of_load(node);
      case ScalarOp::cast:
        return is_argument(program_.arena[node.arguments[0]])
                   ? of(node.arguments[0])
                   : Range{};
      case ScalarOp::call:
        break;
    }
    return of_call(node);
  }

 private:
  // Where a largest element is lies within what was looked through.
  Range of_load(const Scalar& node) const {
    for (const Stage& stage : program_.stages) {
      if (stage.position < 0 || stage.results.size() != 2) continue;
      if (stage.results[1] == node.buffer) return of(stage.position);
    }
    return {};
  }

  Range of_call(const Scalar& node) const {
    if (!is_argument(node) || node.arguments.size() < 2) return {};
    const Range a = of(node.arguments[0]);
    const Range b = of(node.arguments[1]);
    const std::string& function = node.function;
    if (function == "add") {
      return {bounded(a.least + b.least), bounded(a.most + b.most)};
    }
    if (function == "sub") {
      return {bounded(a.least - b.most), bounded(a.most - b.least)};
    }
    if (function == "maximum") {
      return {std::max(a.least, b.least), std::max(a.most, b.most)};
    }
    if (function == "minimum") {
      return {std::min(a.least, b.least), std::min(a.most, b.most)};
    }
    if (function == "remainder" && b.least > 0) return {0, b.most - 1};
    if (function == "select") {
      const Range c = of(node.arguments[2]);
      return {std::min(b.least, c.least), std::max(b.most, c.most)};
    }
    return {};
  }

  const Program& program_;
};

// What the expression is where its loads read nothing, which gives 0: lanes
// beyond a row's end, and elements that a guard leaves out, are computed too,
// and must not raise. Nothing where it is not known.
std::optional<std::int64_t> where_nothing_is_read(const Program& program,
                                                  ExprId id) {
  const Scalar& node = program.arena[id];
  if (node.op == ScalarOp::constant) {
    if (is_float(node.dtype)) return std::nullopt;
    return node.integer;
  }
  if (node.op == ScalarOp::load) {
    const Buffer& buffer = program.buffers[node.buffer];
    if (buffer.kind == BufferKind::result) return std::nullopt;
    return 0;
  }
  if (node.op == ScalarOp::position || is_float(node.dtype)) {
    return std::nullopt;
  }
  std::vector<std::int64_t> of;
  for (const ExprId argument : node.arguments) {
    const auto value = where_nothing_is_read(program, argument);
    if (!value) return std::nullopt;
    of.push_back(*value);
  }
  const std::string& function = node.function;
  if (node.op == ScalarOp::cast) return of[0];
  if (function == "add") return of[0] + of[1];
  if (function == "sub") return of[0] - of[1];
  if (function == "mul") return of[0] * of[1];
  if (function == "neg") return -of[0];
  if (function == "maximum") return std::max(of[0], of[1]);
  if (function == "minimum") return std::min(of[0], of[1]);
  if (function == "select") return of[0] != 0 ? of[1] : of[2];
  if (function == "lt") return of[0] < of[1];
  if (function == "ge") return of[0] >= of[1];
  if (function == "eq") return of[0] == of[1];
  if (function == "ne") return of[0] != of[1];
  return std::nullopt;
}

}  // namespace

ExprId Lowering::in_bounds(ExprId index, std::int64_t least, std::int64_t end) {
  const ExprId from = arena().integer(DType::i64, least);
  const ExprId to = arena().integer(DType::i64, end);
  const Range range = Bounds(program_).of(index);
  if (range.least >= least && range.most < end) {
    // For lanes beyond a row's end, whose index may be anything.
    return *both(arena().call("ge", DType::boolean, {index, from}),
                 arena().call("lt", DType::boolean, {index, to}));
  }
  const auto otherwise = where_nothing_is_read(program_, index);
  if (!otherwise || *otherwise < least || *otherwise >= end) {
    throw Unsupported{"an index that may be outside"};
  }
  return arena().call("in_bounds", DType::boolean, {index, from, to});
}

}  // namespace weft
