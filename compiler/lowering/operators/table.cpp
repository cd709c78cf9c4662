#include "compiler/lowering/operators/table.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace weft {

std::int64_t wrap_index(std::int64_t index, std::int64_t size) {
  if (index < -size || index >= size) {
    throw Unsupported{"index " + std::to_string(index) + " of " +
                      std::to_string(size)};
  }
  return index < 0 ? index + size : index;
}

std::int64_t wrap_dim(std::int64_t dim, std::size_t rank) {
  return wrap_index(dim, static_cast<std::int64_t>(rank));
}

Rule along_a_dim(Rule rule) {
  return [rule = std::move(rule)](const Call& call) {
    if (!call.has_scalar_tensor()) return rule(call);
    Node node = call.node();
    for (auto& value : node.values) {
      if (value && value->shape.empty()) *value = row_major(value->dtype, {1});
    }
    auto values = rule(call.with_one_dim(node));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i]) {
        values[i] = call.in().reshape(*values[i], call.result(i).shape);
      }
    }
    return values;
  };
}

const TensorType& Call::result(std::size_t i) const {
  if (i >= node_.values.size() || !node_.values[i]) {
    throw Unsupported{node_.name + ": no recorded result"};
  }
  return *node_.values[i];
}

const Arg* Call::find(std::size_t position, std::string_view name) const {
  if (position < node_.args.size()) return &node_.args[position];
  for (const auto& [key, value] : node_.kwargs) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool Call::given(std::size_t position, std::string_view name) const {
  const Arg* arg = find(position, name);
  return arg != nullptr && !std::holds_alternative<std::monostate>(arg->value);
}

bool Call::is_tensor(std::size_t position, std::string_view name) const {
  const Arg* arg = find(position, name);
  return arg != nullptr && std::holds_alternative<NodeRef>(arg->value);
}

Virtual Call::tensor(std::size_t position, std::string_view name) const {
  const Arg* arg = find(position, name);
  if (lowering_.is_symbolic(node_, position)) {
    const auto number = std::get<std::int64_t>(arg->value);
    return lowering_.count(DType::i64, number);
  }
  return tensor_of(arg, name);
}

bool Call::has_scalar_tensor() const {
  return std::ranges::any_of(node_.args, [&](const Arg& arg) {
    const auto* ref = std::get_if<NodeRef>(&arg.value);
    const TensorType* type =
        ref == nullptr ? nullptr : lowering_.captured_type(ref->name);
    return type != nullptr && type->shape.empty();
  });
}

Call Call::with_one_dim(const Node& node) const {
  Call call(node, captured_, lowering_);
  call.has_one_dim_ = true;
  return call;
}

OperandType Call::type_of(const Parameter& parameter) const {
  const Arg* arg = find(parameter.position, parameter.name);
  if (arg != nullptr) {
    if (const auto* ref = std::get_if<NodeRef>(&arg->value)) {
      const TensorType* type = lowering_.captured_type(ref->name);
      if (type != nullptr) {
        return {type->dtype, type->shape.empty() ? OperandKind::scalar_tensor
                                                 : OperandKind::tensor};
      }
    }
    if (std::holds_alternative<bool>(arg->value)) {
      return {DType::boolean, OperandKind::number};
    }
    if (std::holds_alternative<std::int64_t>(arg->value)) {
      return {DType::i64, OperandKind::number};
    }
  }
  return {DType::f64, OperandKind::number};
}

DType Call::common_type(const std::vector<Parameter>& which) const {
  std::vector<OperandType> types;
  for (const Parameter& parameter : which) types.push_back(type_of(parameter));
  return promoted_type(types);
}

std::vector<Virtual> Call::operands_as(DType to,
                                       const std::vector<Parameter>& which,
                                       ScalarOperands scalars) const {
  std::vector<Virtual> values;
  for (const Parameter& parameter : which) {
    const OperandType type = type_of(parameter);
    values.push_back(lowering_.converted(
        tensor(parameter.position, parameter.name), type.dtype, to,
        keeps_digits(scalars, type.kind, parameter.position,
                     lowering_.options().eager_on_gpu)));
  }
  return values;
}

std::vector<Virtual> Call::operands(const std::vector<Parameter>& which,
                                    ScalarOperands scalars) const {
  result();  // throws if none is recorded
  return operands_as(captured_.values[0]->dtype, which, scalars);
}

Virtual Call::as_result(const Virtual& value) const {
  return lowering_.converted(value, value.dtype(), captured_.values[0]->dtype,
                             false);
}

Virtual Call::constant(std::size_t position, const char* name, double otherwise,
                       ScalarOperands scalars) const {
  const double value = number(position, name, otherwise);
  return lowering_.converted(
      lowering_.number(result().dtype, value), DType::f64,
      captured_.values[0]->dtype,
      keeps_digits(scalars, OperandKind::number, position,
                   lowering_.options().eager_on_gpu));
}

std::vector<Virtual> Call::tensors(std::size_t position,
                                   std::string_view name) const {
  std::vector<Virtual> values;
  for (const auto& value : optional_tensors(position, name)) {
    if (!value) throw Unsupported{node_.target + ": a tensor left out"};
    values.push_back(*value);
  }
  return values;
}

std::vector<std::optional<Virtual>> Call::optional_tensors(
    std::size_t position, std::string_view name) const {
  const Arg* arg = find(position, name);
  const auto* list =
      arg == nullptr ? nullptr : std::get_if<Arg::List>(&arg->value);
  if (list == nullptr) throw Unsupported{node_.target + ": list of tensors"};
  std::vector<std::optional<Virtual>> values;
  for (const Arg& item : *list) {
    if (std::holds_alternative<std::monostate>(item.value)) {
      values.push_back(std::nullopt);
    } else {
      values.push_back(tensor_of(&item, name));
    }
  }
  return values;
}

Virtual Call::tensor_of(const Arg* arg, std::string_view name) const {
  if (arg != nullptr) {
    if (const auto* ref = std::get_if<NodeRef>(&arg->value)) {
      const auto* value = lowering_.find(ref->name);
      if (value != nullptr && value->size() == 1 && value->front()) {
        const bool is_scalar = value->front()->shape().empty();
        return has_one_dim_ && is_scalar
                   ? lowering_.reshape(*value->front(), {1})
                   : *value->front();
      }
    } else if (const auto* number = std::get_if<std::int64_t>(&arg->value)) {
      const ExprId id = lowering_.arena().integer(DType::i64, *number);
      return Virtual(DType::i64, {}, [id](const Position&) { return id; });
    } else if (const auto* real = std::get_if<double>(&arg->value)) {
      return lowering_.number(DType::f64, *real);
    } else if (const auto* truth = std::get_if<bool>(&arg->value)) {
      return lowering_.number(DType::boolean, *truth);
    }
  }
  throw Unsupported{node_.target + ": argument " + std::string(name)};
}

double Call::number(std::size_t position, std::string_view name,
                    double otherwise) const {
  if (!given(position, name)) return otherwise;
  const Arg* arg = find(position, name);
  if (const auto* real = std::get_if<double>(&arg->value)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&arg->value)) {
    // Beyond, a double has not every integer.
    constexpr std::int64_t kExactMax = std::int64_t{1} << 53;
    if (*whole > kExactMax || *whole < -kExactMax) {
      throw Unsupported{node_.target + ": large integer " + std::string(name)};
    }
    return static_cast<double>(*whole);
  }
  if (const auto* truth = std::get_if<bool>(&arg->value)) return *truth;
  throw Unsupported{node_.target + ": number " + std::string(name)};
}

std::int64_t Call::integer(std::size_t position, std::string_view name,
                           std::int64_t otherwise) const {
  if (!given(position, name)) return otherwise;
  const auto* whole = std::get_if<std::int64_t>(&find(position, name)->value);
  if (whole == nullptr) {
    throw Unsupported{node_.target + ": integer " + std::string(name)};
  }
  return *whole;
}

bool Call::flag(std::size_t position, std::string_view name,
                bool otherwise) const {
  if (!given(position, name)) return otherwise;
  const auto* truth = std::get_if<bool>(&find(position, name)->value);
  if (truth == nullptr) {
    throw Unsupported{node_.target + ": flag " + std::string(name)};
  }
  return *truth;
}

Shape Call::integers(std::size_t position, std::string_view name) const {
  if (!given(position, name)) return {};
  const Arg* arg = find(position, name);
  if (const auto* value = std::get_if<std::int64_t>(&arg->value))
    return {*value};
  const auto* list = std::get_if<Arg::List>(&arg->value);
  Shape numbers;
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const auto* whole = std::get_if<std::int64_t>(&(*list)[i].value);
    if (whole != nullptr) numbers.push_back(*whole);
  }
  if (list == nullptr || numbers.size() != list->size()) {
    throw Unsupported{node_.target + ": list " + std::string(name)};
  }
  return numbers;
}

std::string Call::text(std::size_t position, std::string_view name) const {
  if (!given(position, name)) return "";
  const auto* value = std::get_if<std::string>(&find(position, name)->value);
  if (value == nullptr) {
    throw Unsupported{node_.target + ": text " + std::string(name)};
  }
  return *value;
}

std::int64_t Call::dim(std::size_t position, std::string_view name,
                       std::int64_t otherwise, std::size_t rank) const {
  return wrap_dim(integer(position, name, otherwise), rank);
}

Shape Call::dims(std::size_t position, std::string_view name,
                 std::size_t rank) const {
  Shape dims = integers(position, name);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
  }
  // A tensor without dimensions takes dim 0 and -1, and has nothing to reduce.
  if (rank == 0) return {};
  for (auto& dim : dims) dim = wrap_dim(dim, rank);
  return dims;
}

std::span<const RuleGroup> rule_groups() {
  static constexpr std::array<RuleGroup, 17> kGroups = {{
      {"Pointwise", add_pointwise_rules},
      {"Views", add_view_rules},
      {"Reductions and scans", add_reduction_rules},
      {"Norms and softmax", add_norm_rules},
      {"Movement", add_movement_rules},
      {"Lookups", add_lookup_rules},
      {"Sums at indices", add_sum_rules},
      {"Pooling and interpolation", add_pool_rules},
      {"Adaptive pooling", add_adaptive_pool_rules},
      {"Gradients of pooling", add_pool_gradient_rules},
      {"Gradients of padding", add_pad_gradient_rules},
      {"Gradients of interpolation", add_upsample_gradient_rules},
      {"Losses", add_loss_rules},
      {"Other gradients", add_gradient_rules},
      {"Matrix products", add_contraction_rules},
      {"Convolutions", add_convolution_rules},
      {"Attention", add_attention_rules},
  }};
  return kGroups;
}

const RuleTable& operator_rules() {
  static const RuleTable table = [] {
    RuleTable rules;
    for (const RuleGroup& group : rule_groups()) group.add(rules);
    return rules;
  }();
  return table;
}

const Rule* find_rule(std::string_view target) {
  const RuleTable& rules = operator_rules();
  if (target.starts_with("aten.")) target.remove_prefix(5);
  auto found = rules.find(target);
  if (found == rules.end()) {
    found = rules.find(target.substr(0, target.find('.')));
  }
  return found == rules.end() ? nullptr : &found->second;
}

}  // namespace weft
