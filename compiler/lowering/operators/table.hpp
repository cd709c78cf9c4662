// The table of operators that lowering knows, and how a rule reads its call.
#pragma once

#include <span>
#include <string_view>

#include "compiler/lowering/lower.hpp"
#include "compiler/lowering/promotion.hpp"

namespace weft {

/// Where an argument stands in a call, and its name.
struct Parameter {
  std::size_t position = 0;
  const char* name = "";
};

/// A call under lowering: arguments by position or keyword.
class Call {
 public:
  /// `node`: the call with float32 in the place of halves; `captured`: as it
  /// is.
  Call(const Node& node, const Node& captured, Lowering& lowering)
      : node_(node), captured_(captured), lowering_(lowering) {}

  Lowering& in() const { return lowering_; }
  const Node& node() const { return node_; }
  const TensorType& result(std::size_t i = 0) const;
  bool given(std::size_t position, std::string_view name) const;
  /// A tensor, or a number as a tensor without dimensions.
  Virtual tensor(std::size_t position, std::string_view name) const;
  /// The arguments there, each converted as PyTorch does before it computes in
  /// type `to`, which may be a half: the one way to read operands.
  std::vector<Virtual> operands_as(
      DType to, const std::vector<Parameter>& which,
      ScalarOperands scalars = ScalarOperands::converted) const;
  /// The same in the type of the call's result.
  std::vector<Virtual> operands(
      const std::vector<Parameter>& which,
      ScalarOperands scalars = ScalarOperands::converted) const;
  /// A value that the call computes on the way, rounded to its result's type.
  Virtual as_result(const Virtual& value) const;
  /// The number there, or `otherwise`, in the type of the call's result.
  Virtual constant(std::size_t position, const char* name, double otherwise,
                   ScalarOperands scalars) const;
  /// The type that those arguments have in common (promotion.hpp).
  DType common_type(const std::vector<Parameter>& which) const;
  /// Whether an argument is a tensor without dimensions …
  bool has_scalar_tensor() const;
  /// … and the call, recorded as `node`, in which such tensors have one.
  Call with_one_dim(const Node& node) const;
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
  /// A dimension of a tensor of that rank, made non-negative. Throws if there
  /// is no such dimension.
  std::int64_t dim(std::size_t position, std::string_view name,
                   std::int64_t otherwise, std::size_t rank) const;
  /// Dimensions, made non-negative; all of `rank` when not given or empty.
  Shape dims(std::size_t position, std::string_view name,
             std::size_t rank) const;

 private:
  const Arg* find(std::size_t position, std::string_view name) const;
  Virtual tensor_of(const Arg* arg, std::string_view name) const;
  OperandType type_of(const Parameter& parameter) const;

  const Node& node_;
  const Node& captured_;
  Lowering& lowering_;
  bool has_one_dim_ = false;  ///< tensors without dimensions are given one
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

/// Rules that belong together.
struct RuleGroup {
  std::string_view title;
  void (*add)(RuleTable& table);
};
std::span<const RuleGroup> rule_groups();

/// All rules, by operator: "add.Tensor" or, for every overload, "add".
const RuleTable& operator_rules();

/// The rule for a call's target, or nullptr.
const Rule* find_rule(std::string_view target);

/// Throws unless the target wants contractions lowered.
void check_contractions(const Call& call);

/// The last `rank` of a value's dimensions. Throws if it has fewer.
Shape last_dims(const Virtual& value, std::size_t rank);

/// The largest or smallest element over the dims, and where it is.
std::vector<Virtual> reduce_with_position(Lowering& in, Reduction reduction,
                                          const Virtual& value,
                                          const Shape& dims);

/// What nothing is less than: minus infinity, where the type has it.
ExprId lowest(Lowering& in, DType dtype);

/// The rule for calls along a dimension, on tensors without dimensions, too: as
/// PyTorch does, it sees them as tensors of one dimension and one element.
Rule along_a_dim(Rule rule);

/// A dimension of a tensor of that rank, made non-negative: -1 means the last.
/// Throws if there is no such dimension.
std::int64_t wrap_dim(std::int64_t dim, std::size_t rank);

/// An index into that many elements, made non-negative. Throws if it is
/// outside.
std::int64_t wrap_index(std::int64_t index, std::int64_t size);

}  // namespace weft
