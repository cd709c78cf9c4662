// Written-out attention as one call of PyTorch's operator, for which it
// has kernels that keep the scores on chip. Recognised are:
//
//   products   bmm, matmul, mm, baddbmm, einsum of two operands, up to four
//              dimensions
//   between    views that split and join the batch, copies, casts between
//              halves and float32
//   scale      numbers, on queries, keys or scores, before any mask
//   masks      masked_fill, where, +, -; -inf above the diagonal, made of
//              numbers alone, is `is_causal`
//   softmax    over the keys
//   dropout    none, or in eval mode
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/passes/diagonal_mask.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/written_attention.hpp"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// What is added to a score that a softmax makes nothing of, or less.
constexpr double kMaskedMost = -1e3;

Arg symbol(const char* kind, std::string_view value) {
  return {Symbol{kind, std::string(value)}};
}

std::vector<std::int64_t> broadcast(const std::vector<std::int64_t>& a,
                                    const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> shape(std::max(a.size(), b.size()), 1);
  for (const auto* batch : {&a, &b}) {
    const std::size_t before = shape.size() - batch->size();
    for (std::size_t i = 0; i < batch->size(); ++i) {
      shape[before + i] = std::max(shape[before + i], (*batch)[i]);
    }
  }
  return shape;
}

/// Memory as PyTorch's operator lays its result: the queries' order.
std::vector<std::int64_t> strides_like(const TensorType& query,
                                       const std::vector<std::int64_t>& shape) {
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return query.stride[a] > query.stride[b];
  });
  std::vector<std::int64_t> stride(shape.size());
  std::int64_t elements = 1;
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    stride[*at] = elements;
    elements *= shape[*at];
  }
  return stride;
}

class Fuser {
 public:
  Fuser(const Graph& graph, AttentionMasks masks)
      : graph_(graph), masks_(masks), index_(graph) {}

  FusedAttention run() {
    for (const Node& node : graph_.nodes) {
      if (const auto copied = copies_.find(node.name);
          copied != copies_.end()) {
        nodes_.push_back(copied->second);
      } else if (dropped_.contains(node.name)) {
        continue;
      } else if (const auto found = written_attention(index_, node)) {
        fuse(node, *found);
      } else {
        nodes_.push_back(node);
      }
    }
    if (calls_.empty()) return {graph_, {}, false};
    FusedAttention fused{graph_, std::move(calls_), has_causal_};
    fused.graph.nodes = std::move(nodes_);
    fused.graph = eliminate_dead_code(std::move(fused.graph));
    return fused;
  }

 private:
  /// A node of the graph that is being made.
  struct Tensor {
    std::string name;
    TensorType type;
  };

  void fuse(const Node& last, const WrittenAttention& found) {
    of_ = &last;
    const Masked mask = masked(found);
    Tensor query =
        in_standard_layout(found.query, found, found.queries, found.features);
    const Tensor key =
        in_standard_layout(found.key, found, found.keys, found.features);
    const Tensor value = in_standard_layout(found.value, found, found.keys,
                                            found.value_features);
    if (!mask.whole_rows.name.empty()) {
      // Where a row's every score is filled the queries do not count.
      query = add("query", "aten.masked_fill.Scalar",
                  {ref(query), ref(mask.whole_rows), {0.0}},
                  row_major(query.type.dtype, query.type.shape));
    }
    TensorType type{
        last.values[0]->dtype,
        {found.images, found.heads, found.queries, found.value_features},
        {}};
    type.stride = strides_like(query.type, type.shape);
    Tensor result =
        add("attention", "aten.scaled_dot_product_attention.default",
            {ref(query), ref(key), ref(value)}, std::move(type));
    Node& call = nodes_.back();
    if (!mask.added.name.empty()) {
      call.kwargs.emplace_back("attn_mask", ref(mask.added));
    }
    if (mask.is_causal) call.kwargs.emplace_back("is_causal", Arg{true});
    call.kwargs.emplace_back("scale", Arg{found.scale});
    calls_.push_back(call.name);
    if (mask.is_causal) result = with_unseen(std::move(result), value);
    if (!copied_anyway(last, found, result)) give_back(last, found, result);
  }

  // Operands.

  /// As [images, heads, sequence, features], the features side by side.
  Tensor in_standard_layout(const AttentionOperand& operand,
                            const WrittenAttention& found,
                            std::int64_t sequence, std::int64_t features) {
    Tensor tensor{operand.node->name, *type_of(operand.node)};
    const bool has_images = operand.labels.find('b') != Labels::npos;
    const bool has_heads = operand.labels.find('h') != Labels::npos;
    std::vector<std::int64_t> order;
    for (const char role : {'b', 'h', 's', 'f'}) {
      const auto at = operand.labels.find(role);
      if (at != Labels::npos) {
        order.push_back(static_cast<std::int64_t>(at));
      }
    }
    tensor = permuted(std::move(tensor), order);
    const std::vector<std::int64_t> wanted = {found.images, found.heads,
                                              sequence, features};
    if (!has_images) tensor = unsqueezed(std::move(tensor), 0);
    if (!has_heads) {
      const bool is_joined = has_images && found.heads > 1 &&
                             tensor.type.shape[0] == found.images * found.heads;
      tensor = is_joined ? split(std::move(tensor), found)
                         : unsqueezed(std::move(tensor), 1);
    }
    if (tensor.type.shape != wanted) {
      TensorType type{tensor.type.dtype, wanted, tensor.type.stride};
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (tensor.type.shape[i] != wanted[i]) type.stride[i] = 0;
      }
      tensor = add("view", "aten.expand.default",
                   {ref(tensor), list_of(wanted)}, std::move(type));
    }
    if (tensor.type.stride.back() == 1 || features == 1) return tensor;
    return contiguous(std::move(tensor));
  }

  Tensor permuted(Tensor from, const std::vector<std::int64_t>& order) {
    if (std::ranges::is_sorted(order)) return from;
    TensorType type{from.type.dtype, {}, {}};
    for (const std::int64_t dim : order) {
      type.shape.push_back(from.type.shape[static_cast<std::size_t>(dim)]);
      type.stride.push_back(from.type.stride[static_cast<std::size_t>(dim)]);
    }
    return add("view", "aten.permute.default", {ref(from), list_of(order)},
               std::move(type));
  }

  Tensor unsqueezed(Tensor from, std::int64_t dim) {
    TensorType type = from.type;
    const auto at = static_cast<std::ptrdiff_t>(dim);
    const auto axis = static_cast<std::size_t>(dim);
    const std::int64_t stride =
        axis < type.shape.size() ? type.shape[axis] * type.stride[axis] : 1;
    type.shape.insert(type.shape.begin() + at, 1);
    type.stride.insert(type.stride.begin() + at, stride);
    return add("view", "aten.unsqueeze.default", {ref(from), {dim}},
               std::move(type));
  }

  /// The first dimension as images and heads.
  Tensor split(Tensor from, const WrittenAttention& found) {
    TensorType type = from.type;
    type.shape[0] = found.heads;
    type.shape.insert(type.shape.begin(), found.images);
    type.stride.insert(type.stride.begin(), found.heads * type.stride[0]);
    const Arg shape = list_of(type.shape);
    return add("view", "aten.view.default", {ref(from), shape},
               std::move(type));
  }

  Tensor contiguous(Tensor from) {
    TensorType type = row_major(from.type.dtype, from.type.shape);
    return add("rows", "aten.contiguous.default", {ref(from)}, std::move(type));
  }

  // Masks.

  struct Masked {
    bool is_causal = false;
    Tensor added;       ///< what is added to the scores; unnamed: nothing
    Tensor whole_rows;  ///< where all of a row is filled; unnamed: nowhere
  };

  Masked masked(const WrittenAttention& found) {
    if (found.steps.empty()) return {};
    Masked masked;
    const auto known = known_mask(found);
    // A mask that is added leaves a nan score nan; the operator leaves it out.
    if (known && is_causal(*known) &&
        std::ranges::all_of(found.steps, &MaskStep::fills)) {
      has_causal_ = true;
      if (masks_ == AttentionMasks::causal_flag) return {true, {}, {}};
    }
    std::optional<Tensor> filled;
    bool is_finite = true;
    for (const MaskStep& step : found.steps) {
      Tensor mask = beside_scores(step, found);
      if (!step.fills()) {
        masked.added = with_added(std::move(masked.added), mask, step);
        continue;
      }
      if (step.kind == MaskStep::Kind::unfilled) {
        mask = add("masked", "aten.logical_not.default", {ref(mask)},
                   row_major(DType::boolean, mask.type.shape));
      }
      masked.added = with_filled(std::move(masked.added), mask, step);
      is_finite = is_finite && std::isfinite(step.fill);
      filled = filled
                   ? add("masked", "aten.logical_or.default",
                         {ref(*filled), ref(mask)},
                         row_major(DType::boolean, broadcast(filled->type.shape,
                                                             mask.type.shape)))
                   : mask;
    }
    if (known && leaves_a_key(*known)) return masked;
    if (filled && is_finite) masked.whole_rows = all_of(*filled);
    masked.added = with_empty_rows(std::move(masked.added));
    return masked;
  }

  /// What all steps together add, where numbers alone say it.
  std::optional<DiagonalMask> known_mask(const WrittenAttention& found) const {
    DiagonalMask sum{found.queries, found.keys, {}};
    for (const MaskStep& step : found.steps) {
      const auto mask = diagonal_mask(index_, *step.mask);
      if (!mask || mask->rows != found.queries || mask->columns != found.keys) {
        return std::nullopt;
      }
      sum.values.resize(mask->values.size());  // zeros, at first
      for (std::size_t i = 0; i < sum.values.size(); ++i) {
        const double value = mask->values[i];
        if (step.fills()) {
          const bool is_filled =
              (value != 0) == (step.kind == MaskStep::Kind::filled);
          if (is_filled) sum.values[i] = step.fill;
        } else {
          sum.values[i] += step.kind == MaskStep::Kind::added ? value : -value;
        }
      }
    }
    return sum;
  }

  /// The operator's own mask: minus infinity above the diagonal. Where there
  /// are more keys than queries it is not agreed which diagonal that is.
  static bool is_causal(const DiagonalMask& mask) {
    if (mask.rows != mask.columns) return false;
    for (std::int64_t d = 1 - mask.rows; d < mask.columns; ++d) {
      if (mask.at(d) != (d > 0 ? -kInfinity : 0)) return false;
    }
    return true;
  }

  /// In every row, with its scores about as they were.
  static bool leaves_a_key(const DiagonalMask& mask) {
    std::vector<std::int64_t> left = {0};  // before each diagonal
    for (const double value : mask.values) {
      left.push_back(left.back() + (value > kMaskedMost ? 1 : 0));
    }
    for (std::int64_t row = 0; row < mask.rows; ++row) {
      const auto first = static_cast<std::size_t>(mask.rows - 1 - row);
      const auto end = first + static_cast<std::size_t>(mask.columns);
      if (left[end] == left[first]) return false;
    }
    return true;
  }

  /// The mask in dimensions that are broadcast to the four of the scores.
  Tensor beside_scores(const MaskStep& step, const WrittenAttention& found) {
    Tensor mask{step.mask->name, *type_of(step.mask)};
    if (mask.type.shape.empty()) mask = unsqueezed(std::move(mask), 0);
    if (mask.type.shape.size() == 1) mask = unsqueezed(std::move(mask), 0);
    if (mask.type.shape.size() != 3) return mask;
    if (step.rank == 4 || mask.type.shape[0] == 1) {
      return unsqueezed(std::move(mask), 0);
    }
    return found.heads > 1 ? split(std::move(mask), found)
                           : unsqueezed(std::move(mask), 1);
  }

  Tensor with_added(Tensor sum, const Tensor& mask, const MaskStep& step) {
    const bool is_sum = step.kind == MaskStep::Kind::added;
    if (sum.name.empty()) {
      return is_sum ? mask
                    : add("mask", "aten.neg.default", {ref(mask)},
                          row_major(mask.type.dtype, mask.type.shape));
    }
    return add(
        "mask", is_sum ? "aten.add.Tensor" : "aten.sub.Tensor",
        {ref(sum), ref(mask)},
        row_major(sum.type.dtype, broadcast(sum.type.shape, mask.type.shape)));
  }

  Tensor with_filled(Tensor sum, const Tensor& mask, const MaskStep& step) {
    const DType dtype = of_->values[0]->dtype;
    if (sum.name.empty()) {
      // Zeros where it is not filled.
      sum = add("mask", "aten._to_copy.default", {ref(mask)},
                row_major(dtype, mask.type.shape));
      nodes_.back().kwargs.emplace_back("dtype",
                                        symbol("dtype", dtype_name(dtype)));
    }
    const double least = dtype == DType::f16 ? -65504.0 : -3.38e38;
    const double fill =
        std::isfinite(step.fill) ? std::max(step.fill, least) : step.fill;
    return add("mask", "aten.masked_fill.Scalar", {ref(sum), ref(mask), {fill}},
               row_major(dtype, broadcast(sum.type.shape, mask.type.shape)));
  }

  Tensor all_of(const Tensor& flags) {
    auto shape = flags.type.shape;
    shape.back() = 1;
    return add("whole", "aten.all.dim",
               {ref(flags), {std::int64_t{-1}}, {true}},
               row_major(DType::boolean, std::move(shape)));
  }

  /// Of a row of nothing but minus infinities a softmax is nan. The operator
  /// gives zeros, but for a mask that is nan.
  Tensor with_empty_rows(Tensor mask) {
    const Tensor least =
        add("least", "aten.eq.Scalar", {ref(mask), {-kInfinity}},
            row_major(DType::boolean, mask.type.shape));
    const Tensor rows = all_of(least);
    return add(
        "mask", "aten.masked_fill.Scalar",
        {ref(mask), ref(rows), {std::numeric_limits<double>::quiet_NaN()}},
        row_major(mask.type.dtype, mask.type.shape));
  }

  // Results.

  /// A row does not see the keys after it, but the model multiplies their
  /// values by a probability of 0, and that is nan where they are not finite.
  /// The operator leaves them out, so their sum is added: nan, or nothing.
  Tensor with_unseen(Tensor result, const Tensor& value) {
    std::vector<std::int64_t> shape = value.type.shape;
    const std::int64_t keys = shape[2];
    if (keys == 1) return result;
    shape[2] = keys - 1;
    const TensorType type = row_major(value.type.dtype, shape);
    TensorType later{type.dtype, shape, value.type.stride};
    Tensor sum = add("later", "aten.slice.Tensor",
                     {ref(value), {std::int64_t{2}}, {std::int64_t{1}}, {keys}},
                     std::move(later));
    sum = contiguous(std::move(sum));
    sum = add("unseen", "aten.mul.Tensor", {ref(sum), {0.0}}, type);
    sum = add("unseen", "aten.flip.default", {ref(sum), list_of({2})}, type);
    sum = add("unseen", "aten.cumsum.default", {ref(sum), {std::int64_t{2}}},
              type);
    sum = add("unseen", "aten.flip.default", {ref(sum), list_of({2})}, type);
    sum = add("unseen", "aten.constant_pad_nd.default",
              {ref(sum), list_of({0, 0, 0, 1}), {0.0}},
              row_major(type.dtype, value.type.shape));
    TensorType seen = result.type;
    return add("seen", "aten.add.Tensor", {ref(result), ref(sum)},
               std::move(seen));
  }

  /// The place of each of the result's dimensions among the operator's four.
  static std::vector<std::int64_t> order_of(const Labels& result) {
    std::vector<std::int64_t> order;
    for (const char role : result) {
      order.push_back(static_cast<std::int64_t>(Labels("bhsf").find(role)));
    }
    return order;
  }

  /// Where all that is done with the result is to permute and copy it, a copy
  /// is only made if the operator has not laid it so already.
  bool copied_anyway(const Node& last, const WrittenAttention& found,
                     const Tensor& result) {
    std::vector<std::int64_t> order = order_of(found.result);
    std::vector<std::string> between;
    const Node* at = &last;
    while (index_.is_inner(*at)) {
      const Node& user = index_.reader(*at);
      if (type_of(&user) == nullptr) return false;
      if (copies_rows(user)) {
        if (order.size() != 4) return false;
        const Tensor turned = permuted(result, order);
        Node copy = user;
        copy.target = "aten.contiguous.default";
        copy.args = {ref(turned)};
        copy.kwargs.clear();
        copies_[user.name] = std::move(copy);
        dropped_.insert(between.begin(), between.end());
        return true;
      }
      const auto before = before_permuting(index_, user, "0123");
      if (order.size() == 4 && before) {
        const auto moved = order;
        for (std::size_t from = 0; from < 4; ++from) {
          order[static_cast<std::size_t>((*before)[from] - '0')] = moved[from];
        }
      } else if (operator_name(user.target) == "view" &&
                 order == std::vector<std::int64_t>{0, 2, 3} &&
                 type_of(&user)->shape == result.type.shape) {
        order = {0, 1, 2, 3};
      } else {
        return false;
      }
      between.push_back(user.name);
      at = &user;
    }
    return false;
  }

  static bool copies_rows(const Node& node) {
    const auto name = operator_name(node.target);
    const bool is_copy = name == "clone" || name == "contiguous";
    return is_copy && is_row_major(*node.values[0]) &&
           node.values[0]->shape.size() == 4;
  }

  /// What the last product gave, as it lay in memory.
  void give_back(const Node& last, const WrittenAttention& found,
                 Tensor result) {
    const TensorType& wanted = *last.values[0];
    const std::size_t rank = wanted.shape.size();
    const Labels roles = rank == 4 ? "bhsf" : rank == 3 ? "bsf" : "sf";
    if (rank < 4) {
      std::vector<std::int64_t> shape = {found.images * found.heads,
                                         found.queries, found.value_features};
      if (rank == 2) shape.erase(shape.begin());
      const Arg joined = list_of(shape);
      result = contiguous(std::move(result));
      result = add("view", "aten.view.default", {ref(result), joined},
                   row_major(wanted.dtype, std::move(shape)));
    }
    // Outermost in memory first, copied, then as the product had it.
    std::vector<std::size_t> memory(rank);
    std::iota(memory.begin(), memory.end(), 0);
    std::ranges::stable_sort(memory, [&](std::size_t a, std::size_t b) {
      return wanted.stride[a] > wanted.stride[b];
    });
    std::vector<std::int64_t> there(rank), back(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      there[i] = static_cast<std::int64_t>(roles.find(found.result[memory[i]]));
      back[memory[i]] = static_cast<std::int64_t>(i);
    }
    result = contiguous(permuted(std::move(result), there));
    permuted(std::move(result), back);
    nodes_.back().name = last.name;
    nodes_.back().values = last.values;
  }

  static Arg ref(const Tensor& tensor) { return {NodeRef{tensor.name}}; }

  Tensor add(const std::string& what, const std::string& target,
             std::vector<Arg> args, TensorType type) {
    Node node;
    node.name = graph_.unused_name(of_->name + "_" + what);
    for (int number = 1; !names_.insert(node.name).second; ++number) {
      node.name = graph_.unused_name(of_->name + "_" + what + "_" +
                                     std::to_string(number));
    }
    node.target = target;
    node.args = std::move(args);
    node.values = {type};
    node.source = of_->source;
    nodes_.push_back(std::move(node));
    return {nodes_.back().name, std::move(type)};
  }

  const Graph& graph_;
  const AttentionMasks masks_;
  const NodeIndex index_;
  const Node* of_ = nullptr;  ///< the last product of what is being fused
  std::vector<Node> nodes_;
  std::set<std::string> names_;
  std::map<std::string, Node> copies_;  ///< copies of results, by their name
  std::set<std::string> dropped_;  ///< what lay between a result and its copy
  std::vector<std::string> calls_;
  bool has_causal_ = false;
};

}  // namespace

FusedAttention fuse_attention(const Graph& graph, AttentionMasks masks) {
  const bool has_softmax =
      std::ranges::any_of(graph.nodes, [](const Node& node) {
        return operator_name(node.target) == "_softmax";
      });
  if (!has_softmax || writes_in_place(graph)) return {graph, {}, false};
  return Fuser(graph, masks).run();
}

}  // namespace weft
