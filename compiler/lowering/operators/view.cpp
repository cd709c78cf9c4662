// Views, copies and constants: they move no data, they only say where an
// element is.
#include <algorithm>

#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

Values reshape(const Call& call) {
  return {call.in().reshape(call.tensor(0, "self"), call.result().shape)};
}

Values same(const Call& call) {
  return {call.in().cast(call.tensor(0, "self"), call.result().dtype)};
}

// What is copied there is all that is left of where it is copied to.
Values copy(const Call& call) {
  const Virtual source =
      call.in().cast(call.tensor(1, "src"), call.result().dtype);
  return {call.in().broadcast(source, call.result().shape)};
}

// Dimension i of the result is dimension order[i] of the source.
Virtual permuted(const Virtual& value, const Shape& order) {
  Shape shape;
  for (const std::int64_t dim : order) shape.push_back(value.shape()[dim]);
  return Virtual(value.dtype(), shape, [=](const Position& at) {
    Position inner(at.size());
    for (std::size_t i = 0; i < order.size(); ++i) inner[order[i]] = at[i];
    return value.at(inner);
  });
}

Values permute(const Call& call) {
  const Virtual value = call.tensor(0, "self");
  const std::size_t rank = value.shape().size();
  Shape order = call.integers(1, "dims");
  for (auto& dim : order) dim = wrap_dim(dim, rank);
  return {permuted(value, order)};
}

Values transpose(const Call& call) {
  const Virtual value = call.tensor(0, "self");
  const std::size_t rank = value.shape().size();
  Shape order;
  for (std::size_t i = 0; i < rank; ++i) order.push_back(i);
  if (rank > 1) {
    std::swap(order[call.dim(1, "dim0", 0, rank)],
              order[call.dim(2, "dim1", 1, rank)]);
  }
  return {permuted(value, order)};
}

Values expand(const Call& call) {
  return {call.in().broadcast(call.tensor(0, "self"), call.result().shape)};
}

// Element i of the result's dimension is element start + i · step.
Virtual sliced(const Virtual& value, std::int64_t dim, std::int64_t start,
               std::int64_t step, std::int64_t extent) {
  Shape shape = value.shape();
  shape[dim] = extent;
  return Virtual(value.dtype(), shape, [=](const Position& at) {
    Position inner = at;
    inner[dim] = at[dim] * step + start;
    return value.at(inner);
  });
}

Values slice(const Call& call) {
  const Virtual value = call.tensor(0, "self");
  const std::int64_t dim = call.dim(1, "dim", 0, value.shape().size());
  const std::int64_t size = value.shape()[dim];
  std::int64_t start = call.integer(2, "start", 0);
  if (start < 0) start += size;
  start = std::clamp<std::int64_t>(start, 0, size);
  return {sliced(value, dim, start, call.integer(4, "step", 1),
                 call.result().shape[dim])};
}

Values select(const Call& call) {
  const Virtual value = call.tensor(0, "self");
  const std::int64_t dim = call.dim(1, "dim", 0, value.shape().size());
  const std::int64_t index =
      wrap_index(call.integer(2, "index", 0), value.shape()[dim]);
  const Virtual selected = sliced(value, dim, index, 1, 1);
  return {call.in().reshape(selected, call.result().shape)};
}

Values split(const Call& call) {
  const Virtual value = call.tensor(0, "self");
  const std::int64_t dim = call.dim(2, "dim", 0, value.shape().size());
  Values pieces;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < call.node().values.size(); ++i) {
    const std::int64_t extent = call.result(i).shape[dim];
    pieces.push_back(sliced(value, dim, start, 1, extent));
    start += extent;
  }
  return pieces;
}

Values flip(const Call& call) {
  const Virtual value = call.tensor(0, "self");
  Shape dims = call.integers(1, "dims");
  for (auto& dim : dims) dim = wrap_dim(dim, value.shape().size());
  return {Virtual(value.dtype(), value.shape(), [=](const Position& at) {
    Position inner = at;
    for (const std::int64_t dim : dims) {
      inner[dim] = Index(value.shape()[dim] - 1) - at[dim];
    }
    return value.at(inner);
  })};
}

Values repeat(const Call& call) {
  const Virtual value = call.tensor(0, "self");
  const Shape& shape = call.result().shape;
  const std::size_t skip = shape.size() - value.shape().size();
  return {Virtual(value.dtype(), shape, [=](const Position& at) {
    Position inner(at.begin() + skip, at.end());
    for (std::size_t i = 0; i < inner.size(); ++i) {
      inner[i] = floor_mod(inner[i], value.shape()[i]);
    }
    return value.at(inner);
  })};
}

Rule constant(double number) {
  return [=](const Call& call) -> Values {
    const TensorType& type = call.result();
    return {
        call.in().broadcast(call.in().number(type.dtype, number), type.shape)};
  };
}

Rule filled(std::size_t position, const char* name) {
  return [=](const Call& call) -> Values {
    const TensorType& type = call.result();
    const Virtual value =
        call.in().cast(call.tensor(position, name), type.dtype);
    if (!value.shape().empty()) throw Unsupported{call.node().target};
    return {call.in().broadcast(value, type.shape)};
  };
}

Values arange(const Call& call) {
  const TensorType& type = call.result();
  if (is_float(type.dtype)) throw Unsupported{"arange of floats"};
  const bool from_zero = call.node().target.ends_with("default");
  const std::int64_t start = from_zero ? 0 : call.integer(0, "start", 0);
  const std::int64_t step = from_zero ? 1 : call.integer(2, "step", 1);
  Lowering& in = call.in();
  return {Virtual(type.dtype, type.shape, [=, &in](const Position& at) {
    return in.arena().cast(type.dtype,
                           in.arena().position(at[0] * step + start));
  })};
}

Values getitem(const Call& call) {
  const auto* ref = std::get_if<NodeRef>(&call.node().args.at(0).value);
  const auto* values = ref == nullptr ? nullptr : call.in().find(ref->name);
  const auto item = static_cast<std::size_t>(call.integer(1, "index", 0));
  if (values == nullptr || item >= values->size() || !(*values)[item]) {
    throw Unsupported{"getitem of " + call.node().name};
  }
  return {(*values)[item]};
}

}  // namespace

void add_view_rules(RuleTable& table) {
  for (const char* name :
       {"view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze",
        "squeeze", "flatten", "unflatten", "view_copy"}) {
    table[name] = reshape;
  }
  table["view.dtype"] = [](const Call& call) -> Values {
    throw Unsupported{call.node().target};
  };
  for (const char* name : {"clone", "contiguous", "_to_copy", "alias", "detach",
                           "lift_fresh_copy", "to", "positive"}) {
    table[name] = same;
  }
  table["copy"] = copy;
  table["permute"] = permute;
  table["transpose"] = transpose;
  table["t"] = transpose;
  table["expand"] = expand;
  table["slice"] = slice;
  table["select"] = select;
  table["split_with_sizes"] = split;
  table["split"] = split;
  table["flip"] = along_a_dim(flip);
  table["repeat"] = repeat;
  // What nobody has written may be anything; nobody reads it.
  for (const char* name :
       {"empty", "empty_like", "empty_permuted", "new_empty_strided"}) {
    table[name] = constant(0);
  }
  table["zeros"] = constant(0);
  table["zeros_like"] = constant(0);
  table["ones"] = constant(1);
  table["ones_like"] = constant(1);
  table["full"] = filled(1, "fill_value");
  table["full_like"] = filled(1, "fill_value");
  table["scalar_tensor"] = filled(0, "s");
  table["fill"] = filled(1, "value");
  table["arange"] = arange;
  table["getitem"] = getitem;
}

}  // namespace weft
