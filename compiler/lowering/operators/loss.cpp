// Losses that read where a class number says.
#include "compiler/lowering/operators/table.hpp"

namespace weft {
namespace {

using Values = std::vector<std::optional<Virtual>>;

enum LossReduction : std::int64_t { kNone = 0, kMean = 1, kSum = 2 };

// What of [batch, class, …] each target picks; of ignored ones, 0.
Virtual picked(Lowering& in, const Virtual& value, const Virtual& target,
               std::int64_t ignored, std::size_t class_dim) {
  const std::int64_t classes = value.shape()[class_dim];
  return Virtual(value.dtype(), target.shape(), [=, &in](const Position& at) {
    ScalarArena& arena = in.arena();
    const ExprId class_index = target.at(at);
    Position inner = at;
    inner.insert(inner.begin() + class_dim, Index(0));
    const ExprId counts =
        arena.call("ne", DType::boolean,
                   {class_index, arena.integer(DType::i64, ignored)});
    // What is ignored may be outside, and is by default.
    const ExprId looked_at =
        arena.call("select", DType::i64,
                   {counts, class_index, arena.integer(DType::i64, 0)});
    const ExprId guard = in.in_bounds(looked_at, 0, classes);
    ExprId element = 0;
    if (classes == 1) {
      element = arena.guarded(value.at(inner), guard);
    } else {
      const LoopVar variable = in.new_variable(classes);
      inner[class_dim] = Index(variable);
      element = in.read_at(value, inner, {{variable.id, looked_at}}, guard);
    }
    return arena.call("select", value.dtype(),
                      {counts, element, arena.integer(value.dtype(), 0)});
  });
}

// The loss, and the sum of the weights that its mean divides by.
Values negative_log_likelihood(const Call& call) {
  Lowering& in = call.in();
  const Virtual value = call.tensor(0, "self");
  const Virtual target = in.cast(call.tensor(1, "target"), DType::i64);
  const std::int64_t reduction = call.integer(3, "reduction", kMean);
  const std::int64_t ignored = call.integer(4, "ignore_index", -100);
  const DType dtype = value.dtype();
  // One sample may come without a batch.
  const std::size_t class_dim = value.shape().size() == 1 ? 0 : 1;
  Virtual weight = in.number(dtype, 1);
  if (call.given(2, "weight"))
    weight = in.cast(call.tensor(2, "weight"), dtype);
  weight = in.broadcast(weight, {value.shape()[class_dim]});
  // Along the classes alone: every target picks from the same.
  const Virtual spread(dtype, value.shape(), [=](const Position& at) {
    return weight.at({at[class_dim]});
  });
  const Virtual weights = picked(in, spread, target, ignored, class_dim);
  const Virtual losses = in.pointwise(
      "neg", dtype,
      {in.pointwise("mul", dtype,
                    {picked(in, value, target, ignored, class_dim), weights})});
  if (reduction == kNone) return {losses, std::nullopt};
  Shape all;
  for (std::size_t i = 0; i < target.shape().size(); ++i) {
    all.push_back(static_cast<std::int64_t>(i));
  }
  Virtual loss = in.reduce(Reduction::sum, losses, all)[0];
  const Virtual total = in.reduce(Reduction::sum, weights, all)[0];
  if (reduction == kMean) loss = in.pointwise("div", dtype, {loss, total});
  return {loss, total};
}

}  // namespace

void add_loss_rules(RuleTable& table) {
  table["nll_loss_forward"] = negative_log_likelihood;
  table["nll_loss2d_forward"] = negative_log_likelihood;
}

}  // namespace weft
