// Sums to where an index tensor says. Where the target adds in place, each
// entry's values are added in order, as PyTorch's. Elsewhere each element
// of the result looks at every entry and adds up what is meant for it: nothing
// is written twice, so the result does not depend on who comes first. That is
// work for each entry at each row; where both are many it stays the
// PyTorch's.
#include <algorithm>

#include "compiler/lowering/operators/lookup.hpp"
#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

/// What is added to what.
struct ScatterAdd {
  Virtual base;
  Virtual values;  ///< what is added
  Shape picked;    ///< the dimensions of base for which the index says where
  Shape extents;   ///< of the other dimensions, as far as anything is added
  Shape entries;   ///< of the index
};

/// An entry, seen from a point of the other dimensions: whether it counts, the
/// places that it says, and where its value is.
struct Entry {
  Guard counts;
  std::vector<ExprId> indices;
  Position source;
};
using EntryAt =
    std::function<Entry(const Position& point, const Position& entry)>;

Virtual gather_per_element(const Call& call, const ScatterAdd& scatter,
                           const EntryAt& entry_at) {
  Lowering& in = call.in();
  const DType dtype = scatter.base.dtype();
  const Shape& shape = scatter.base.shape();
  std::int64_t rows = 1;
  for (const std::int64_t dim : scatter.picked) rows *= shape[dim];
  const std::int64_t most = in.options().choices.summed_places_max;
  if (std::min(rows, elements_of(scatter.entries)) > most) {
    throw Unsupported{call.node().target + ": many entries for many rows"};
  }
  Shape all = shape;
  all.insert(all.end(), scatter.entries.begin(), scatter.entries.end());
  const Virtual terms(dtype, all, [=, &in](const Position& at) {
    const Position point(at.begin(), at.begin() + shape.size());
    const Position entry(at.begin() + shape.size(), at.end());
    const Entry found = entry_at(point, entry);
    Guard meant = found.counts;
    for (std::size_t i = 0; i < scatter.picked.size(); ++i) {
      const ExprId here = in.arena().position(point[scatter.picked[i]]);
      meant = in.both(meant, in.arena().call("eq", DType::boolean,
                                             {found.indices[i], here}));
    }
    return in.read_if(scatter.values, found.source, meant,
                      in.arena().integer(dtype, 0));
  });
  const Virtual sum = in.reduce(Reduction::sum, terms,
                                last_dims(terms, scatter.entries.size()))[0];
  return in.pointwise("add", dtype, {scatter.base, sum});
}

Virtual add_scattered(const Call& call, const ScatterAdd& scatter,
                      const EntryAt& entry_at) {
  Lowering& in = call.in();
  if (scatter.base.dtype() == DType::boolean) {
    throw Unsupported{"a sum of truth values"};
  }
  if (!in.options().adds_in_place)
    return gather_per_element(call, scatter, entry_at);
  return in.add_in_place(
      scatter.base, scatter.picked, scatter.extents, scatter.entries,
      [=, &in](const Position& point, const Position& entry) {
        const Entry found = entry_at(point, entry);
        const ExprId value =
            in.read_if(scatter.values, found.source, found.counts,
                       in.arena().integer(scatter.base.dtype(), 0));
        return Lowering::Addition{found.counts, found.indices, value};
      });
}

// How often each place is named, of `rows` of them in each picked dimension.
Virtual counted(const Call& call, const Shape& rows, const Shape& entries,
                const std::function<Entry(const Position& entry)>& entry_at) {
  Lowering& in = call.in();
  Shape picked;
  for (std::size_t i = 0; i < rows.size(); ++i) picked.push_back(i);
  const ScatterAdd ones{in.broadcast(in.number(DType::i64, 0), rows),
                        in.broadcast(in.number(DType::i64, 1), entries), picked,
                        rows, entries};
  return add_scattered(call, ones, [=](const Position&, const Position& entry) {
    Entry found = entry_at(entry);
    found.source = entry;
    return found;
  });
}

// Each row over how often it was read, padding too; one that was not is zero.
Virtual over_frequency(const Call& call, const Virtual& scatter,
                       const Virtual& index) {
  Lowering& in = call.in();
  const std::int64_t rows = scatter.shape()[0];
  const Virtual count =
      counted(call, {rows}, index.shape(), [=, &in](const Position& entry) {
        const ExprId row = index.at(entry);
        return Entry{in.in_bounds(row, 0, rows), {row}, {}};
      });
  const DType wide = scatter.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Virtual often =
      in.restore(in.cast(in.pointwise("maximum", DType::i64,
                                      {count, in.number(DType::i64, 1)}),
                         wide),
                 {1});
  return in.pointwise("div", scatter.dtype(), {scatter, often});
}

// The rows of a table's gradient. An index outside is of no row, as the
// framework has it: reading the table has refused it.
Values embedding(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Shape& shape = call.result().shape;
  const Virtual index = index_values(call, call.tensor(1, "indices"));
  const std::int64_t padding = call.integer(3, "padding_idx", -1);
  const ScatterAdd scatter{in.broadcast(in.number(dtype, 0), shape),
                           in.cast(call.tensor(0, "grad_output"), dtype),
                           {0},
                           shape,
                           index.shape()};
  const Virtual rows = add_scattered(
      call, scatter, [=, &in](const Position& point, const Position& entry) {
        ScalarArena& arena = in.arena();
        const ExprId row = index.at(entry);
        const auto compared = [&](const char* how, std::int64_t number) {
          return arena.call(how, DType::boolean,
                            {row, arena.integer(DType::i64, number)});
        };
        Guard counts = in.both(compared("ge", 0), compared("lt", shape[0]));
        if (padding >= 0) counts = in.both(counts, compared("ne", padding));
        Position source = entry;
        source.push_back(point[1]);
        return Entry{counts, {row}, source};
      });
  const bool is_scaled = call.flag(4, "scale_grad_by_freq", false);
  return {is_scaled ? over_frequency(call, rows, index) : rows};
}

// The one value of all elements, if it can be seen that they are alike.
std::optional<ExprId> only_value(Lowering& in, const Virtual& values) {
  const auto somewhere = [&] {
    Position at;
    for (const std::int64_t extent : values.shape()) {
      at.push_back(extent == 1 ? Index(0) : Index(in.new_variable(extent)));
    }
    return values.at(at);
  };
  const ExprId value = somewhere();
  if (value != somewhere()) return {};
  return value;
}

// self[:, i, j, :] = value. Of several values for equal places the last would
// win: they must be one.
Virtual index_put_alike(const Call& call, const IndexTensors& index,
                        const std::function<Entry(const Position&)>& entry_at) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Shape& shape = call.result().shape;
  const auto value = only_value(in, in.cast(call.tensor(2, "values"), dtype));
  if (!value) {
    throw Unsupported{"index_put, where the last of equal places wins"};
  }
  const auto from = shape.begin() + index.first;
  const Virtual count = counted(call, Shape(from, from + index.chosen.size()),
                                index.together, entry_at);
  const Virtual self = in.cast(call.tensor(0, "self"), dtype);
  return Virtual(dtype, shape, [=, &in](const Position& at) {
    ScalarArena& arena = in.arena();
    const auto first = at.begin() + index.first;
    const ExprId is_named =
        arena.call("gt", DType::boolean,
                   {count.at(Position(first, first + index.chosen.size())),
                    arena.integer(DType::i64, 0)});
    return arena.call("select", dtype, {is_named, *value, self.at(at)});
  });
}

// self[:, i, j, :] += values, with each entry's part where entries are equal.
Values index_put(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Shape& shape = call.result().shape;
  const IndexTensors index = index_tensors(call);
  const std::size_t first = index.first;
  const std::size_t behind = first + index.chosen.size();
  const auto entry_at = [=, &in](const Position& entry) {
    Entry found;
    for (std::size_t i = first; i < behind; ++i) {
      const ExprId given = index.chosen[i - first].at(entry);
      found.counts =
          in.both(found.counts, in.in_bounds(given, -shape[i], shape[i]));
      found.indices.push_back(from_either_end(in, given, shape[i]));
    }
    return found;
  };
  if (!call.flag(3, "accumulate", false)) {
    return {index_put_alike(call, index, entry_at)};
  }
  Shape picked;
  for (std::size_t i = first; i < behind; ++i) picked.push_back(i);
  Shape whole(shape.begin(), shape.begin() + first);
  whole.insert(whole.end(), index.together.begin(), index.together.end());
  whole.insert(whole.end(), shape.begin() + behind, shape.end());
  const ScatterAdd scatter{
      in.cast(call.tensor(0, "self"), dtype),
      in.broadcast(in.cast(call.tensor(2, "values"), dtype), whole), picked,
      shape, index.together};
  return {add_scattered(
      call, scatter, [=](const Position& point, const Position& entry) {
        Entry found = entry_at(entry);
        found.source.assign(point.begin(), point.begin() + first);
        found.source.insert(found.source.end(), entry.begin(), entry.end());
        found.source.insert(found.source.end(), point.begin() + behind,
                            point.end());
        return found;
      })};
}

Values index_add(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Shape& shape = call.result().shape;
  const std::int64_t dim = call.dim(1, "dim", 0, shape.size());
  const Virtual index = index_values(call, call.tensor(2, "index"));
  Virtual values = in.cast(call.tensor(3, "source"), dtype);
  if (call.given(4, "alpha")) {
    values = in.pointwise("mul", dtype,
                          {values, in.cast(call.tensor(4, "alpha"), dtype)});
  }
  const ScatterAdd scatter{in.cast(call.tensor(0, "self"), dtype),
                           values,
                           {dim},
                           shape,
                           {values.shape()[dim]}};
  return {add_scattered(
      call, scatter, [=, &in](const Position& point, const Position& entry) {
        const ExprId destination = index.at(entry);
        Position source = point;
        source[dim] = entry[0];
        return Entry{
            in.in_bounds(destination, 0, shape[dim]), {destination}, source};
      })};
}

// Of other dimensions only what the index has.
Values scatter_add(const Call& call) {
  Lowering& in = call.in();
  const DType dtype = call.result().dtype;
  const Shape& shape = call.result().shape;
  const std::int64_t dim = call.dim(1, "dim", 0, shape.size());
  const Virtual index = index_values(call, call.tensor(2, "index"));
  const Virtual values = in.cast(call.tensor(3, "src"), dtype);
  const ScatterAdd scatter{in.cast(call.tensor(0, "self"), dtype),
                           values,
                           {dim},
                           index.shape(),
                           {index.shape()[dim]}};
  return {add_scattered(
      call, scatter, [=, &in](const Position& point, const Position& entry) {
        Position source = point;
        source[dim] = entry[0];
        // Where there is no entry the index is taken for 0, which is inside.
        const Guard within = in.inside(source, index.shape());
        const ExprId destination = in.read_if(
            index, source, within, in.arena().integer(DType::i64, 0));
        return Entry{in.both(within, in.in_bounds(destination, 0, shape[dim])),
                     {destination},
                     source};
      })};
}

}  // namespace

void add_sum_rules(RuleTable& table) {
  table["embedding_dense_backward"] = embedding;
  table["index_put"] = table["_unsafe_index_put"] = index_put;
  table["index_add"] = along_a_dim(index_add);
  table["scatter_add"] = along_a_dim(scatter_add);
}

}  // namespace weft
