// What puts tensors together, or pads, turns and cuts them: every element of
// the result is read from where it comes from, under a guard.
#include <algorithm>

#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

// The pieces one after the other. The last holds what no other does.
Virtual concatenated(Lowering& in, const std::vector<Virtual>& pieces,
                     std::size_t dim, const Shape& shape) {
  const DType dtype = pieces.front().dtype();
  const Virtual whole(dtype, shape, [=, &in](const Position& at) {
    std::int64_t end = shape[dim];
    ExprId result = in.arena().integer(dtype, 0);
    for (std::size_t i = pieces.size(); i-- > 0;) {
      const std::int64_t extent = pieces[i].shape()[dim];
      end -= extent;
      Position inner = at;
      inner[dim] = at[dim] - end;
      result =
          in.read_if(pieces[i], inner, in.inside(inner[dim], extent), result);
    }
    return result;
  });
  if (std::ranges::none_of(pieces, &Virtual::is_scan)) return whole;
  return whole.of_pieces({dim, pieces});
}

Values cat(const Call& call) {
  Lowering& in = call.in();
  const TensorType& type = call.result();
  std::vector<Virtual> pieces;
  for (const Virtual& piece : call.tensors(0, "tensors")) {
    // An empty tensor of one dimension takes no part, whatever the others are.
    if (piece.shape().size() != type.shape.size()) throw Unsupported{"cat"};
    pieces.push_back(in.cast(piece, type.dtype));
  }
  const std::int64_t dim = call.dim(1, "dim", 0, type.shape.size());
  return {concatenated(in, pieces, dim, type.shape)};
}

Values stack(const Call& call) {
  Lowering& in = call.in();
  const TensorType& type = call.result();
  const std::int64_t dim = call.dim(1, "dim", 0, type.shape.size());
  std::vector<Virtual> pieces;
  for (const Virtual& piece : call.tensors(0, "tensors")) {
    pieces.push_back(in.restore(in.cast(piece, type.dtype), {dim}));
  }
  // Each element asks which piece it is of: PyTorch copies these sooner.
  if (pieces.size() > in.options().choices.stacked_tensors_max)
    throw Unsupported{"stack of many"};
  return {concatenated(in, pieces, dim, type.shape)};
}

// Pairs of margins, of the last dimension first; negative ones cut.
Values constant_pad(const Call& call) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "self");
  const Shape margins = call.integers(1, "pad");
  const Virtual filler = in.number(value.dtype(), call.number(2, "value", 0));
  const std::size_t rank = value.shape().size();
  if (margins.size() > 2 * rank)
    throw Unsupported{"margins of such dimensions"};
  return {
      Virtual(value.dtype(), call.result().shape, [=, &in](const Position& at) {
        Position inner = at;
        Guard guard;
        for (std::size_t i = 0; i < margins.size() / 2; ++i) {
          const std::size_t dim = rank - 1 - i;
          inner[dim] = at[dim] - margins[2 * i];
          guard = in.both(guard, in.inside(inner[dim], value.shape()[dim]));
        }
        return in.read_if(value, inner, guard, filler.at({}));
      })};
}

// Two pieces that change places, in one dimension after the other.
Values roll(const Call& call) {
  Lowering& in = call.in();
  Virtual value = call.tensor(0, "self");
  const Shape whole = value.shape();
  const Shape shifts = call.integers(1, "shifts");
  Shape dims = call.integers(2, "dims");
  if (dims.empty()) {
    value = in.reshape(value, {elements_of(whole)});
    dims = {0};
  }
  if (dims.size() != shifts.size()) throw Unsupported{"roll by such shifts"};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t dim = wrap_dim(dims[i], value.shape().size());
    const std::int64_t extent = value.shape()[dim];
    const std::int64_t shift = (shifts[i] % extent + extent) % extent;
    const Virtual before = value;
    value = Virtual(value.dtype(), value.shape(), [=, &in](const Position& at) {
      Position source = at;
      Position wrapped = at;
      source[dim] = at[dim] - shift;
      wrapped[dim] = at[dim] + (extent - shift);
      const ExprId turned =
          in.read_if(before, wrapped, in.inside(wrapped[dim], extent),
                     in.arena().integer(before.dtype(), 0));
      return in.read_if(before, source, in.inside(source[dim], extent), turned);
    });
  }
  return {in.reshape(value, whole)};
}

// tril keeps columns up to row + diagonal; triu those from there on.
Rule triangle(bool lower) {
  return [=](const Call& call) -> Values {
    Lowering& in = call.in();
    const Virtual value = call.tensor(0, "self");
    if (value.shape().size() < 2) throw Unsupported{"a triangle of a vector"};
    const std::int64_t diagonal = call.integer(1, "diagonal", 0);
    return {Virtual(value.dtype(), value.shape(), [=, &in](const Position& at) {
      const Index row = at[at.size() - 2] + diagonal;
      const ExprId inside = in.arena().call(
          lower ? "le" : "ge", DType::boolean,
          {in.arena().position(at.back()), in.arena().position(row)});
      return in.arena().call(
          "select", value.dtype(),
          {inside, value.at(at), in.arena().integer(value.dtype(), 0)});
    })};
  };
}

// Position start + i · step of the dimension is element i of the source.
Values slice_scatter(const Call& call) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "self");
  const Virtual source = in.cast(call.tensor(1, "src"), value.dtype());
  const std::size_t dim = call.dim(2, "dim", 0, value.shape().size());
  const std::int64_t size = value.shape()[dim];
  std::int64_t start = call.integer(3, "start", 0);
  start = std::clamp<std::int64_t>(start < 0 ? start + size : start, 0, size);
  const std::int64_t step = call.integer(5, "step", 1);
  return {Virtual(value.dtype(), value.shape(), [=, &in](const Position& at) {
    // Moved up by whole steps, for a quotient takes no negative number.
    const std::int64_t above = (start + step - 1) / step;
    const Index moved = at[dim] - start + above * step;
    Position inner = at;
    inner[dim] = floor_div(moved, step) - above;
    Guard guard = in.inside(inner[dim], source.shape()[dim]);
    if (step > 1) {
      guard = in.both(guard, in.inside(floor_mod(moved, step), 1));
    }
    return in.read_if(source, inner, guard, value.at(at));
  })};
}

Values select_scatter(const Call& call) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "self");
  const std::int64_t dim = call.dim(2, "dim", 0, value.shape().size());
  const Virtual source =
      in.restore(in.cast(call.tensor(1, "src"), value.dtype()), {dim});
  const std::int64_t index =
      wrap_index(call.integer(3, "index", 0), value.shape()[dim]);
  return {Virtual(value.dtype(), value.shape(), [=, &in](const Position& at) {
    Position inner = at;
    inner[dim] = at[dim] - index;
    return in.read_if(source, inner, in.inside(inner[dim], 1), value.at(at));
  })};
}

// Windows along a dimension; what is in one is the new last dimension.
Values unfold(const Call& call) {
  const Virtual value = call.tensor(0, "self");
  const std::size_t dim = call.dim(1, "dimension", 0, value.shape().size());
  const std::int64_t step = call.integer(3, "step", 1);
  const std::int64_t size = call.integer(2, "size", 1);
  Shape shape = value.shape();
  if (size < 1 || size > shape[dim] || step < 1) {
    throw Unsupported{"unfold by such a size"};
  }
  shape[dim] = (shape[dim] - size) / step + 1;
  shape.push_back(size);
  return {Virtual(value.dtype(), shape, [=](const Position& at) {
    Position inner(at.begin(), at.end() - 1);
    inner[dim] = at[dim] * step + at.back();
    return value.at(inner);
  })};
}

Values diagonal(const Call& call) {
  const Virtual value = call.tensor(0, "self");
  const std::size_t rank = value.shape().size();
  const std::int64_t offset = call.integer(1, "offset", 0);
  const std::size_t row = call.dim(2, "dim1", 0, rank);
  const std::size_t column = call.dim(3, "dim2", 1, rank);
  return {Virtual(value.dtype(), call.result().shape, [=](const Position& at) {
    Position inner;
    std::size_t next = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      if (i == row) {
        inner.push_back(at.back() + std::max<std::int64_t>(-offset, 0));
      } else if (i == column) {
        inner.push_back(at.back() + std::max<std::int64_t>(offset, 0));
      } else {
        inner.push_back(at[next++]);
      }
    }
    return value.at(inner);
  })};
}

}  // namespace

void add_movement_rules(RuleTable& table) {
  table["cat"] = cat;
  table["stack"] = stack;
  table["constant_pad_nd"] = constant_pad;
  table["roll"] = along_a_dim(roll);
  table["tril"] = triangle(true);
  table["triu"] = triangle(false);
  table["slice_scatter"] = slice_scatter;
  table["select_scatter"] = select_scatter;
  table["unfold"] = along_a_dim(unfold);
  table["diagonal"] = diagonal;
}

}  // namespace weft
