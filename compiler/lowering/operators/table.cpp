#include "compiler/lowering/operators/table.hpp"

#include <numeric>

namespace weft {

std::int64_t wrap(std::int64_t dim, std::size_t rank) {
  return dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim;
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
  if (lowering_.grows(node_, position)) {
    const auto number = std::get<std::int64_t>(arg->value);
    return lowering_.count(DType::i64, number);
  }
  return tensor_of(arg, name);
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
        return *value->front();
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
  if (const auto* one = std::get_if<std::int64_t>(&arg->value)) return {*one};
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

Shape Call::dims(std::size_t position, std::string_view name,
                 std::size_t rank) const {
  Shape dims = integers(position, name);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
  }
  for (auto& dim : dims) dim = wrap(dim, rank);
  // A tensor without dimensions takes dim 0 and -1, and has nothing to fold.
  if (rank == 0) dims.clear();
  return dims;
}

const RuleTable& operator_rules() {
  static const RuleTable table = [] {
    RuleTable rules;
    add_pointwise_rules(rules);
    add_view_rules(rules);
    add_reduction_rules(rules);
    add_norm_rules(rules);
    add_movement_rules(rules);
    add_lookup_rules(rules);
    add_sum_rules(rules);
    add_pool_rules(rules);
    add_adaptive_pool_rules(rules);
    add_pool_gradient_rules(rules);
    add_pad_gradient_rules(rules);
    add_upsample_gradient_rules(rules);
    add_loss_rules(rules);
    add_gradient_rules(rules);
    add_contraction_rules(rules);
    add_convolution_rules(rules);
    add_attention_rules(rules);
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
