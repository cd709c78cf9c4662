// The table of operators that lowering knows, and how a rule reads its call.
#pragma once

#include <string_view>

#include "compiler/lowering/lower.hpp"

namespace weft {

/// A call under lowering: arguments by position or keyword.
class Call {
 public:
  Call(const Node& node, Lowering& lowering)
      : node_(node), lowering_(lowering) {}

  Lowering& in() const { return lowering_; }
  const Node& node() const { return node_; }
  const TensorType& result(std::size_t i = 0) const;
  bool given(std::size_t position, std::string_view name) const;
  /// A tensor, or a number as a tensor without dimensions.
  Virtual tensor(std::size_t position, std::string_view name) const;
  /// A list of tensors.
  std::vector<Virtual> tensors(std::size_t position,
                               std::string_view name) const;
  /// A list of tensors in which some may be left out.
  std::vector<std::optional<Virtual>> optional_tensors(
      std::size_t position, std::string_view name) const;
  bool is_tensor(std::size_t position, std::string_view name) const;
  double number(std::size_t position, std::string_view name,
                double otherwise) const;
  std::int64_t integer(std::size_t position, std::string_view name,
                       std::int64_t otherwise) const;
  bool flag(std::size_t position, std::string_view name, bool otherwise) const;
  Shape integers(std::size_t position, std::string_view name) const;
  std::string text(std::size_t position, std::string_view name) const;
  /// Dimensions, made non-negative; all of `rank` when not given or empty.
  Shape dims(std::size_t position, std::string_view name,
             std::size_t rank) const;

 private:
  const Arg* find(std::size_t position, std::string_view name) const;
  Virtual tensor_of(const Arg* arg, std::string_view name) const;

  const Node& node_;
  Lowering& lowering_;
};

using Rule = std::function<std::vector<std::optional<Virtual>>(const Call&)>;
using RuleTable = std::map<std::string, Rule, std::less<>>;

void add_pointwise_rules(RuleTable& table);
void add_view_rules(RuleTable& table);
void add_reduction_rules(RuleTable& table);
void add_norm_rules(RuleTable& table);
void add_movement_rules(RuleTable& table);
void add_pool_rules(RuleTable& table);
void add_adaptive_pool_rules(RuleTable& table);
void add_pool_gradient_rules(RuleTable& table);
void add_pad_gradient_rules(RuleTable& table);
void add_upsample_gradient_rules(RuleTable& table);
void add_loss_rules(RuleTable& table);
void add_gradient_rules(RuleTable& table);
void add_lookup_rules(RuleTable& table);
void add_sum_rules(RuleTable& table);
void add_contraction_rules(RuleTable& table);
void add_convolution_rules(RuleTable& table);
void add_attention_rules(RuleTable& table);

/// All rules, by operator: "add.Tensor" or, for every overload, "add".
const RuleTable& operator_rules();

/// The rule for a call's target, or nullptr.
const Rule* find_rule(std::string_view target);

/// Throws unless the target wants contractions lowered.
void check_contractions(const Call& call);

/// The last `rank` of a value's dimensions.
Shape last_dims(const Virtual& value, std::size_t rank);

/// The largest or smallest element over the dims, and where it is.
std::vector<Virtual> fold_with_position(Lowering& in, Fold fold,
                                        const Virtual& value,
                                        const Shape& dims);

/// What nothing is less than: minus infinity, where the type has it.
ExprId lowest(Lowering& in, DType dtype);

/// -1 means the last of `rank`.
std::int64_t wrap(std::int64_t dim, std::size_t rank);

}  // namespace weft
