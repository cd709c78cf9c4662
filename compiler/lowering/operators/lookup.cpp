// Reading where an integer tensor says. An index that is out of range, which
// PyTorch refuses, is refused by the kernel (Lowering::in_bounds).
#include "compiler/lowering/operators/lookup.hpp"

#include <algorithm>

#include "compiler/lowering/operators/table.hpp"

namespace weft {

Virtual index_values(const Call& call, const Virtual& index) {
  if (is_float(index.dtype()) || index.dtype() == DType::boolean) {
    throw Unsupported{call.node().target + " by such an index"};
  }
  return call.in().cast(index, DType::i64);
}

// An index below zero counts from the end.
ExprId from_either_end(Lowering& in, ExprId offset, std::int64_t extent) {
  ScalarArena& arena = in.arena();
  const ExprId negative =
      arena.call("lt", DType::boolean, {offset, arena.integer(DType::i64, 0)});
  const ExprId raised = arena.call("add", DType::i64,
                                   {offset, arena.integer(DType::i64, extent)});
  return arena.call("select", DType::i64, {negative, raised, offset});
}

IndexTensors index_tensors(const Call& call) {
  const auto given = call.optional_tensors(1, "indices");
  IndexTensors index;
  while (index.first < given.size() && !given[index.first]) ++index.first;
  for (std::size_t i = index.first; i < given.size() && given[i]; ++i) {
    index.chosen.push_back(index_values(call, *given[i]));
    const Shape& shape = index.chosen.back().shape();
    Shape& together = index.together;
    if (shape.size() > together.size()) {
      together.insert(together.begin(), shape.size() - together.size(), 1);
    }
    const std::size_t skip = together.size() - shape.size();
    for (std::size_t k = 0; k < shape.size(); ++k) {
      if (together[skip + k] == 1) together[skip + k] = shape[k];
    }
  }
  for (std::size_t i = index.first + index.chosen.size(); i < given.size();
       ++i) {
    if (given[i]) throw Unsupported{"index tensors with a gap between"};
  }
  if (index.chosen.empty()) throw Unsupported{"index without a tensor"};
  for (Virtual& index_value : index.chosen) {
    index_value = call.in().broadcast(index_value, index.together);
  }
  return index;
}

namespace {

using Values = std::vector<std::optional<Virtual>>;

// `at` with dimension `dim` where the index's value says.
ExprId looked_up(Lowering& in, const Virtual& value, Position at,
                 std::size_t dim, ExprId offset) {
  const std::int64_t extent = value.shape()[dim];
  const ExprId guard = in.in_bounds(offset, 0, extent);
  at[dim] = Index(0);
  // The only element: nothing to choose.
  if (extent == 1) return in.arena().guarded(value.at(at), guard);
  const LoopVar variable = in.new_variable(extent);
  at[dim] = Index(variable);
  return in.read_at(value, at, {{variable.id, offset}}, guard);
}

// weight[index]: whole rows.
Values embedding(const Call& call) {
  Lowering& in = call.in();
  const Virtual weight = call.tensor(0, "weight");
  const Virtual index = index_values(call, call.tensor(1, "indices"));
  return {Virtual(weight.dtype(), call.result().shape,
                  [=, &in](const Position& at) {
                    const Position of_index(at.begin(), at.end() - 1);
                    return looked_up(in, weight, {Index(0), at.back()}, 0,
                                     index.at(of_index));
                  })};
}

Values index_select(const Call& call) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "self");
  const Virtual index = index_values(call, call.tensor(2, "index"));
  const std::size_t dim = call.dim(1, "dim", 0, value.shape().size());
  return {
      Virtual(value.dtype(), call.result().shape, [=, &in](const Position& at) {
        return looked_up(in, value, at, dim, index.at({at[dim]}));
      })};
}

Values gather(const Call& call) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "self");
  const Virtual index = index_values(call, call.tensor(2, "index"));
  const std::size_t dim = call.dim(1, "dim", 0, value.shape().size());
  return {
      Virtual(value.dtype(), call.result().shape, [=, &in](const Position& at) {
        return looked_up(in, value, at, dim, index.at(at));
      })};
}

// self with one element of each row along `dim` replaced: by the index, which
// is one long there. (Several could name the same place, and the last would
// win.)
Values scatter(const Call& call) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "self");
  const Virtual index = index_values(call, call.tensor(2, "index"));
  const std::size_t dim = call.dim(1, "dim", 0, value.shape().size());
  Shape rows = value.shape();
  rows[dim] = 1;
  if (index.shape() != rows) throw Unsupported{"scatter of several places"};
  const bool is_number = !call.is_tensor(3, "src");
  const Virtual put =
      in.cast(call.tensor(3, is_number ? "value" : "src"), value.dtype());
  return {Virtual(value.dtype(), value.shape(), [=, &in](const Position& at) {
    Position row = at;
    row[dim] = Index(0);
    ScalarArena& arena = in.arena();
    const ExprId offset = index.at(row);
    const ExprId is_inside = in.in_bounds(offset, 0, value.shape()[dim]);
    const Guard is_here = in.both(
        is_inside,
        arena.call("eq", DType::boolean, {offset, arena.position(at[dim])}));
    const ExprId there = put.at(is_number ? Position{} : row);
    return arena.call("select", value.dtype(), {*is_here, there, value.at(at)});
  })};
}

// value[:, i, j, :]: index tensors for dimensions beside one another, which
// broadcast together and stand where the first of them stood.
Values index(const Call& call) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "self");
  const Shape& shape = call.result().shape;
  const IndexTensors index = index_tensors(call);
  const std::size_t first = index.first;
  const std::size_t rank = index.together.size();
  const std::vector<Virtual> chosen = index.chosen;
  return {Virtual(value.dtype(), shape, [=, &in](const Position& at) {
    const Position of_index(at.begin() + first, at.begin() + first + rank);
    Position inner(at.begin(), at.begin() + first);
    ComputedIndices indices;
    Guard guard;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const std::int64_t extent = value.shape()[first + i];
      const ExprId given = chosen[i].at(of_index);
      guard = in.both(guard, in.in_bounds(given, -extent, extent));
      inner.push_back(Index(0));
      if (extent == 1) continue;
      const LoopVar variable = in.new_variable(extent);
      inner.back() = Index(variable);
      indices[variable.id] = from_either_end(in, given, extent);
    }
    inner.insert(inner.end(), at.begin() + first + rank, at.end());
    return indices.empty() ? in.arena().guarded(value.at(inner), *guard)
                           : in.read_at(value, inner, indices, *guard);
  })};
}

}  // namespace

void add_lookup_rules(RuleTable& table) {
  table["embedding"] = embedding;
  table["index_select"] = along_a_dim(index_select);
  table["gather"] = along_a_dim(gather);
  table["scatter.value"] = table["scatter.src"] = along_a_dim(scatter);
  table["index"] = index;
}

}  // namespace weft
