#include "compiler/passes/written_attention.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "compiler/graph/operator_facts.hpp"
#include "compiler/loops/scalar.hpp"

namespace weft {
namespace {

using Extents = std::vector<std::int64_t>;

/// A fill above that is no mask: scores may be as small.
constexpr double kFillMost = -1e4;

bool same_labels(Labels a, Labels b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

/// Extents of all dimensions but the last two.
Extents batch_of(const TensorType& type) {
  return {type.shape.begin(), type.shape.end() - 2};
}

/// Whether b is broadcast to a's shape, and a stays as it is.
bool broadcasts_to(const TensorType& a, const TensorType& b) {
  if (b.shape.size() > a.shape.size()) return false;
  for (std::size_t i = 1; i <= b.shape.size(); ++i) {
    const std::int64_t extent = b.shape[b.shape.size() - i];
    if (extent != 1 && extent != a.shape[a.shape.size() - i]) return false;
  }
  return true;
}

/// What passes values on as they are: copies, and names for the same memory.
bool passes_on(const Node& node) {
  const auto name = operator_name(node.target);
  return is_copy(node.target) || name == "alias" || name == "detach";
}

bool is_reshaping(const Node& node) {
  const auto name = operator_name(node.target);
  return name == "view" || name == "_unsafe_view" || name == "expand" ||
         name == "unsqueeze" || name == "squeeze" || name == "_reshape_alias";
}

/// Of the product that two matrices' letters make: which are the batch's, the
/// left's, the right's, and the one that is summed over.
struct Parts {
  Labels batch;
  char of_left = 0, of_right = 0, summed = 0;
};

std::optional<Parts> parts_of(const Labels& left, const Labels& right,
                              const Labels& result) {
  Parts parts;
  const auto set = [](char& role, char label) {
    const bool is_free = role == 0;
    role = label;
    return is_free;
  };
  for (const char label : left) {
    const bool in_right = has(right, label), stays = has(result, label);
    if (in_right && stays) {
      parts.batch += label;
    } else if (in_right ? !set(parts.summed, label)
                        : !stays || !set(parts.of_left, label)) {
      return std::nullopt;
    }
  }
  for (const char label : right) {
    if (has(left, label)) continue;
    if (!has(result, label) || !set(parts.of_right, label)) {
      return std::nullopt;
    }
  }
  const bool is_whole = parts.of_left && parts.of_right && parts.summed &&
                        result.size() == parts.batch.size() + 2;
  return is_whole ? std::optional(parts) : std::nullopt;
}

class Finder {
 public:
  Finder(const NodeIndex& index, const Node& last)
      : index_(index), last_(last) {}

  std::optional<WrittenAttention> find() {
    const auto product = product_labels(index_, last_);
    if (!product || operator_name(last_.target) == "baddbmm") {
      return std::nullopt;
    }
    for (const bool weights_are_left : {true, false}) {
      found_ = {};
      batches_.clear();
      const bool is_one =
          weights_are_left
              ? take(*product->left, product->of_left, *product->right,
                     product->of_right, product->of_result)
              : take(*product->right, product->of_right, *product->left,
                     product->of_left, product->of_result);
      if (is_one) return found_;
    }
    return std::nullopt;
  }

 private:
  bool take(const Node& weights, const Labels& of_weights, const Node& value,
            const Labels& of_value, const Labels& of_result) {
    const auto parts = parts_of(of_weights, of_value, of_result);
    if (!parts) return false;
    const Node* softmax =
        softmax_behind(weights, of_weights, parts->of_left, parts->summed);
    if (softmax == nullptr) return false;
    found_.value = {&value, of_value};
    Walk walk;
    if (!scores(*index_.argument(*softmax, 0), walk)) return false;
    found_.scale = walk.scale;
    std::ranges::reverse(walk.steps);
    found_.steps = std::move(walk.steps);
    if (!set_batch()) return false;
    // The batch's order is the weights'.
    name_roles(found_.value.labels, weights_batch_, parts->summed,
               parts->of_right);
    found_.result = of_result;
    name_roles(found_.result, weights_batch_, parts->of_left, parts->of_right);
    peel(found_.query, &found_.scale);
    peel(found_.key, &found_.scale);
    peel(found_.value, nullptr);
    return are_alike();
  }

  /// The softmax over keys that the weights are, or nullptr.
  const Node* softmax_behind(const Node& weights, Labels labels, char query,
                             char key) {
    bool is_viewed = false;
    const Labels ends{query, key};
    for (const Node* node = &weights; node != nullptr;
         node = index_.argument(*node, 0)) {
      if (!index_.is_inner(*node)) return nullptr;
      const TensorType& type = *type_of(node);
      if (operator_name(node->target) == "_softmax") {
        if (!labels.ends_with(ends)) return nullptr;
        if (!is_viewed) {
          weights_batch_ = labels.substr(0, labels.size() - 2);
        }
        batches_.push_back(batch_of(type));
        return is_over_last(*node) ? node : nullptr;
      }
      const TensorType* from = type_of(index_.argument(*node, 0));
      if (from == nullptr || from->shape.size() < 2) return nullptr;
      if (const auto before = before_permuting(index_, *node, labels)) {
        if (is_viewed && *before != labels) return nullptr;
        labels = *before;
      } else if (is_reshaping(*node)) {
        if (!labels.ends_with(ends) || !keeps_matrices(*from, type)) {
          return nullptr;
        }
        if (!is_viewed) {
          weights_batch_ = labels.substr(0, labels.size() - 2);
        }
        is_viewed = true;
        batches_.push_back(batch_of(type));
        labels = numbered(from->shape.size() - 2) + ends;
      } else if (operator_name(node->target) == "_to_copy") {
        // Narrowed after the softmax.
        if (from->dtype != DType::f32 || !is_half(type.dtype)) {
          return nullptr;
        }
      } else if (!passes_on(*node)) {
        return nullptr;
      }
    }
    return nullptr;
  }

  /// Letters that no equation has.
  static Labels numbered(std::size_t count) {
    Labels labels;
    for (std::size_t i = 0; i < count; ++i) {
      labels += static_cast<char>('0' + static_cast<int>(i % 10));
    }
    return labels;
  }

  bool is_over_last(const Node& softmax) const {
    const auto dim = NodeIndex::number(softmax, 1);
    const TensorType* from = type_of(index_.argument(softmax, 0));
    if (!dim || from == nullptr) return false;
    return *dim == -1 || *dim == static_cast<double>(from->shape.size()) - 1;
  }

  /// A view that only cuts or joins the batch's dimensions.
  static bool keeps_matrices(const TensorType& from, const TensorType& to) {
    return from.shape.size() >= 2 && to.shape.size() >= 2 &&
           element_count(from) == element_count(to) &&
           std::equal(from.shape.end() - 2, from.shape.end(),
                      to.shape.end() - 2);
  }

  /// From the softmax upwards.
  struct Walk {
    double scale = 1;
    bool is_scaled = false;
    std::vector<MaskStep> steps;  ///< the last applied first
  };

  bool scores(const Node& node, Walk& walk) {
    if (!index_.is_inner(node)) return false;
    const TensorType& type = *type_of(&node);
    if (type.shape.size() < 2) return false;
    if (const auto product = product_labels(index_, node)) {
      return of_queries(node, *product, walk);
    }
    const auto name = operator_name(node.target);
    if (name == "mul" || name == "div") {
      const auto number = NodeIndex::number(node, 1);
      const Node* from = index_.argument(node, 0);
      if (!number || from == nullptr || node.args.size() != 2 ||
          !node.kwargs.empty()) {
        return false;
      }
      walk.scale *= name == "mul" ? *number : 1 / *number;
      walk.is_scaled = true;
      return scores(*from, walk);
    }
    if (name == "add" || name == "sub") return with_added(node, walk);
    if (name == "masked_fill" || name == "where") {
      return with_filled(node, walk);
    }
    const Node* from = index_.argument(node, 0);
    const TensorType* source = type_of(from);
    if (source == nullptr) return false;
    if (name == "_to_copy") {
      return is_half(source->dtype) && type.dtype == DType::f32 &&
             scores(*from, walk);
    }
    if (is_reshaping(node)) {
      if (!keeps_matrices(*source, type)) return false;
      batches_.push_back(batch_of(*source));
      return scores(*from, walk);
    }
    return passes_on(node) && scores(*from, walk);
  }

  bool with_added(const Node& node, Walk& walk) {
    if (node.args.size() != 2 || !node.kwargs.empty()) return false;
    const bool is_sum = operator_name(node.target) == "add";
    for (const std::size_t position : {0, 1}) {
      if (position == 1 && !is_sum) break;
      const Node* from = index_.argument(node, position);
      const Node* mask = index_.argument(node, 1 - position);
      if (from == nullptr || mask == nullptr) return false;
      Walk tried = walk;
      const auto batches = batches_;
      if (step({is_sum ? MaskStep::Kind::added : MaskStep::Kind::subtracted,
                mask},
               *from, node, tried)) {
        walk = std::move(tried);
        return true;
      }
      batches_ = batches;
    }
    return false;
  }

  bool with_filled(const Node& node, Walk& walk) {
    if (node.args.size() != 3) return false;
    if (operator_name(node.target) == "masked_fill") {
      return filled({MaskStep::Kind::filled, index_.argument(node, 1)},
                    index_.argument(node, 0), node, 2, walk);
    }
    const Node* mask = index_.argument(node, 0);
    const Walk before = walk;
    const auto batches = batches_;
    if (filled({MaskStep::Kind::unfilled, mask}, index_.argument(node, 1), node,
               2, walk)) {
      return true;
    }
    walk = before;
    batches_ = batches;
    return filled({MaskStep::Kind::filled, mask}, index_.argument(node, 2),
                  node, 1, walk);
  }

  bool filled(MaskStep mask_step, const Node* from, const Node& node,
              std::size_t fill_at, Walk& walk) {
    const auto fill = constant(node, fill_at);
    if (!fill || std::isnan(*fill) || *fill > kFillMost || from == nullptr) {
      return false;
    }
    const TensorType* mask = type_of(mask_step.mask);
    if (mask == nullptr || mask->dtype != DType::boolean) return false;
    mask_step.fill = *fill;
    return step(mask_step, *from, node, walk);
  }

  /// A number as it stands, or a tensor that holds nothing but it.
  std::optional<double> constant(const Node& node, std::size_t position) const {
    if (const auto number = NodeIndex::number(node, position)) return number;
    const Node* given = index_.argument(node, position);
    for (; given != nullptr; given = index_.argument(*given, 0)) {
      if (given->kind == NodeKind::constant && given->elements.size() == 1) {
        return given->elements[0];
      }
      const auto name = operator_name(given->target);
      if (name == "scalar_tensor") return NodeIndex::number(*given, 0);
      if (name == "full" || name == "full_like") {
        return NodeIndex::number(*given, 1);
      }
      if (!passes_on(*given) && name != "_to_copy" && !is_reshaping(*given)) {
        break;
      }
    }
    return std::nullopt;
  }

  bool step(MaskStep mask_step, const Node& from, const Node& masked,
            Walk& walk) {
    const TensorType* type = type_of(&from);
    const TensorType* mask = type_of(mask_step.mask);
    if (type == nullptr || mask == nullptr || !broadcasts_to(*type, *mask) ||
        type->dtype != type_of(&masked)->dtype) {
      return false;
    }
    // What is scaled behind the mask would scale the mask, too.
    if (walk.is_scaled) return false;
    mask_step.rank = type->shape.size();
    walk.steps.push_back(mask_step);
    return scores(from, walk);
  }

  bool of_queries(const Node& node, const ProductLabels& product, Walk& walk) {
    if (operator_name(node.target) == "baddbmm" && !with_sum(node, walk)) {
      return false;
    }
    const auto parts =
        parts_of(product.of_left, product.of_right, product.of_result);
    if (!parts) return false;
    const std::size_t rank = product.of_result.size();
    const Labels batch = product.of_result.substr(0, rank - 2);
    const char query = product.of_result[rank - 2];
    const char key = product.of_result[rank - 1];
    if (!same_labels(batch, parts->batch)) return false;
    const bool is_turned = query == parts->of_right;
    found_.query = {is_turned ? product.right : product.left,
                    is_turned ? product.of_right : product.of_left};
    found_.key = {is_turned ? product.left : product.right,
                  is_turned ? product.of_left : product.of_right};
    batches_.push_back(batch_of(*type_of(&node)));
    name_roles(found_.query.labels, batch, query, parts->summed);
    name_roles(found_.key.labels, batch, key, parts->summed);
    return true;
  }

  /// baddbmm(mask, …, beta, alpha).
  bool with_sum(const Node& node, Walk& walk) {
    double beta = 1, alpha = 1;
    for (const auto& [key, arg] : node.kwargs) {
      Node holder;
      holder.args = {arg};
      const auto number = NodeIndex::number(holder, 0);
      if (!number) return false;
      if (key == "beta") beta = *number;
      if (key == "alpha") alpha = *number;
    }
    if (node.args.size() != 3 || (beta != 0 && beta != 1)) return false;
    if (beta == 1) {
      const Node* mask = index_.argument(node, 0);
      const TensorType* added = type_of(mask);
      if (walk.is_scaled || added == nullptr ||
          !broadcasts_to(*type_of(&node), *added)) {
        return false;
      }
      walk.steps.push_back({MaskStep::Kind::added, mask, 0, 3});
    }
    walk.scale *= alpha;
    return true;
  }

  /// Letters of a product as roles.
  static void name_roles(Labels& labels, const Labels& batch, char sequence,
                         char feature) {
    for (char& label : labels) {
      const auto dim = batch.find(label);
      if (label == sequence) {
        label = 's';
      } else if (label == feature) {
        label = 'f';
      } else {
        label = dim == 0 ? 'b' : 'h';
      }
    }
  }

  /// One batch of two extents for both products and all between.
  bool set_batch() {
    batches_.push_back(Extents());  // with none, 1 and 1
    const auto largest = std::ranges::max_element(
        batches_, {}, [](const Extents& extents) { return extents.size(); });
    Extents two = *largest;
    if (two.size() > 2) return false;
    two.resize(2, 1);
    found_.images = two[0];
    found_.heads = two[1];
    return std::ranges::all_of(batches_, [&](const Extents& extents) {
      return extents.size() < 2 || extents == two;
    });
  }

  /// Goes up to what is copied, permuted and scaled by a number.
  void peel(AttentionOperand& operand, double* scale) {
    for (;;) {
      const Node& node = *operand.node;
      const Node* from =
          node.kind == NodeKind::call ? index_.argument(node, 0) : nullptr;
      if (type_of(from) == nullptr) return;
      const auto name = operator_name(node.target);
      const auto number = NodeIndex::number(node, 1);
      if (const auto before = before_permuting(index_, node, operand.labels)) {
        operand.labels = *before;
      } else if (scale != nullptr && (name == "mul" || name == "div") &&
                 number && node.args.size() == 2 && node.kwargs.empty() &&
                 index_.is_inner(node) &&
                 type_of(from)->dtype == type_of(&node)->dtype) {
        *scale *= name == "mul" ? *number : 1 / *number;
      } else if (!passes_on(node) ||
                 type_of(from)->shape != type_of(&node)->shape) {
        return;
      }
      operand.node = from;
    }
  }

  std::int64_t extent(const AttentionOperand& operand, char role) const {
    const auto at = operand.labels.find(role);
    return at == Labels::npos ? 1 : type_of(operand.node)->shape[at];
  }

  /// Types and extents are those of one operator.
  bool are_alike() {
    const TensorType& type = *type_of(&last_);
    const bool is_known = type.dtype == DType::f32 || is_half(type.dtype);
    const auto fits = [&](const AttentionOperand& operand) {
      // Its batch as one extent, or as those two; of extent 1 it is stretched.
      const std::int64_t images = extent(operand, 'b'),
                         heads = extent(operand, 'h');
      const bool is_joined = !has(operand.labels, 'h') && found_.heads > 1 &&
                             images == found_.images * found_.heads;
      return type_of(operand.node)->dtype == type.dtype &&
             (is_joined || ((images == 1 || images == found_.images) &&
                            (heads == 1 || heads == found_.heads)));
    };
    found_.queries = extent(found_.query, 's');
    found_.keys = extent(found_.key, 's');
    found_.features = extent(found_.query, 'f');
    found_.value_features = extent(found_.value, 'f');
    return is_known && found_.queries > 0 && found_.keys > 0 &&
           fits(found_.query) && fits(found_.key) && fits(found_.value) &&
           found_.keys == extent(found_.value, 's') &&
           found_.features == extent(found_.key, 'f') &&
           std::ranges::all_of(found_.steps, [&](const MaskStep& mask_step) {
             return mask_step.fills() ||
                    type_of(mask_step.mask)->dtype == type.dtype;
           });
  }

  const NodeIndex& index_;
  const Node& last_;
  WrittenAttention found_;
  std::vector<Extents> batches_;  ///< at every place between the products
  Labels weights_batch_;
};

}  // namespace

std::optional<WrittenAttention> written_attention(const NodeIndex& index,
                                                  const Node& last) {
  return Finder(index, last).find();
}

}  // namespace weft
