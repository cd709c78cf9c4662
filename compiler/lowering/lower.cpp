#include "compiler/lowering/lower.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "compiler/graph/operator_facts.hpp"
#include "compiler/lowering/operators/table.hpp"
#include "compiler/lowering/promotion.hpp"

namespace weft {

struct Virtual::Memory {
  Rule rule;
  std::unordered_map<std::string, ExprId> known;
};

Virtual::Virtual(DType dtype, Shape shape, Rule rule)
    : dtype_(dtype), shape_(std::move(shape)), memory_(new Memory) {
  memory_->rule = std::move(rule);
}

Virtual Virtual::of_scan() const {
  Virtual scan = *this;
  scan.is_scan_ = true;
  return scan;
}

Virtual Virtual::of_pieces(Pieces pieces) const {
  Virtual whole = *this;
  whole.pieces_ = std::make_shared<const Pieces>(std::move(pieces));
  return whole;
}

ExprId Virtual::at(const Position& position) const {
  std::string key;
  for (const Index& index : position) key += index.key() + "|";
  const auto found = memory_->known.find(key);
  if (found != memory_->known.end()) return found->second;
  const ExprId id = memory_->rule(position);
  memory_->known.emplace(std::move(key), id);
  return id;
}

namespace {

// How far into a choice among halves is looked for what needs no rounding.
constexpr int kChoicesDeep = 6;

bool contains(const Shape& dims, std::int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

// Others stay with PyTorch.
bool is_supported(DType dtype, const LoweringOptions& options) {
  if (is_half(dtype)) return options.halves;
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i64 ||
         dtype == DType::i32 || dtype == DType::boolean;
}

bool is_conversion(const Node& node) {
  const std::string_view name = operator_name(node.target);
  return name == "_to_copy" || name == "to";
}

bool has_half_variant(const std::string& function) {
  static const std::set<std::string> names = {"exp",  "sigmoid", "silu",
                                              "tanh", "gelu",    "gelu_tanh"};
  return names.contains(function);
}

// Calls whose result is as exact, relative to its size, as the function in
// them. (logsumexp is not: its terms may cancel.)
bool takes_half_functions(const Node& call) {
  static const std::set<std::string_view> names = {
      "exp", "sigmoid", "silu", "tanh", "gelu", "_softmax", "_log_softmax"};
  return names.contains(operator_name(call.target));
}

DType computed_in(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

// Truth values are lanes of -1 and 0, on which the arithmetic of integers is
// wrong. Sums and products of them are or and and, as PyTorch has it.
std::string function_of_truth(const std::string& function) {
  static const std::map<std::string, std::string> kSame = {
      {"add", "logical_or"},
      {"maximum", "logical_or"},
      {"mul", "logical_and"},
      {"product", "logical_and"},
      {"minimum", "logical_and"}};
  static const std::set<std::string> kTrue = {
      "logical_and", "logical_or",  "logical_xor", "logical_not", "bitwise_and",
      "bitwise_or",  "bitwise_xor", "bitwise_not", "select",      "isnan",
      "isinf",       "eq",          "ne",          "lt",          "le",
      "gt",          "ge"};
  const auto found = kSame.find(function);
  if (found != kSame.end()) return found->second;
  if (!kTrue.contains(function)) {
    throw Unsupported{function + " of truth values"};
  }
  return function;
}

/// x where the factors are x and tanh(softplus(x)): their product has a
/// function of its own, which takes one exponential for the three here.
std::optional<ExprId> argument_of_mish(const ScalarArena& arena,
                                       const std::vector<ExprId>& factors) {
  const auto is_call = [&](const Scalar& node, std::string_view function) {
    return node.op == ScalarOp::call && node.function == function;
  };
  const auto is_number = [&](ExprId id, double value) {
    return arena[id].op == ScalarOp::constant && arena[id].number == value;
  };
  for (const std::size_t at : {0U, 1U}) {
    const ExprId x = factors[1 - at];
    const Scalar& outer = arena[factors[at]];
    if (!is_call(outer, "tanh") && !is_call(outer, "half_tanh")) continue;
    const Scalar& inner = arena[outer.arguments[0]];
    if (is_call(inner, "softplus") && inner.arguments[0] == x &&
        is_number(inner.arguments[1], 1) && is_number(inner.arguments[2], 20)) {
      return x;
    }
  }
  return std::nullopt;
}

/// Where nobody asks for the place of the largest element, its value will do.
void forget_position(Stage& stage) {
  stage.reduction =
      stage.reduction == Reduction::argmax ? Reduction::max : Reduction::min;
  stage.position = -1;
  stage.results.pop_back();
}

void check_reduction(Reduction reduction, const Virtual& value,
                     const Shape& dims) {
  if (value.dtype() == DType::boolean && reduction != Reduction::max &&
      reduction != Reduction::min) {
    throw Unsupported{"a sum, product or position of truth values"};
  }
  // The prelude keeps positions in 32 bits.
  if (reduction != Reduction::argmax && reduction != Reduction::argmin) return;
  if (dims.empty()) throw Unsupported{"the place of a single number"};
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= value.shape()[dim];
  if (count > INT32_MAX) throw Unsupported{"positions beyond 32 bits"};
}

}  // namespace

Virtual Lowering::number(DType dtype, double value) {
  const ExprId id = arena().constant(dtype, value);
  return Virtual(dtype, {}, [id](const Position&) { return id; });
}

bool Lowering::is_symbolic(const Node& call, std::size_t argument) const {
  return options_.for_sizes &&
         symbolic_arguments_.contains({call.name, argument});
}

Virtual Lowering::count(DType dtype, std::int64_t elements) {
  const ExprId id = options_.for_sizes ? arena().count(dtype, elements)
                                       : arena().integer(dtype, elements);
  return Virtual(dtype, {}, [id](const Position&) { return id; });
}

Virtual Lowering::cast(const Virtual& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  return Virtual(dtype, value.shape(), [=, this](const Position& at) {
    return arena().cast(dtype, value.at(at));
  });
}

Virtual Lowering::rounded(const Virtual& value, DType half) {
  // A scan's pieces are rounded each.
  if (value.pieces() != nullptr) return value;
  const Virtual result(
      DType::f32, value.shape(), [=, this](const Position& at) {
        const ExprId exact = value.at(at);
        if (fits(exact, half, kChoicesDeep)) return exact;
        return arena().cast(DType::f32, arena().cast(half, exact));
      });
  return value.is_scan() ? result.of_scan() : result;
}

bool Lowering::wants_wide(const Virtual& value) const {
  return options_.wide_moments && value.dtype() == DType::f32 &&
         argument_type_ != DType::f16;
}

Virtual Lowering::wide(const Virtual& value) {
  return wants_wide(value) ? cast(value, DType::f64) : value;
}

Virtual Lowering::converted(const Virtual& value, DType from, DType to,
                            bool keeps_digits) {
  const Virtual wide = cast(value, computed_in(to));
  const bool is_half_already =
      !is_half(to) || from == to || fits_halves(from) || keeps_digits;
  return is_half_already || options_.free_rounding ? wide : rounded(wide, to);
}

// What chooses among halves, or turns their signs, gives halves.
bool Lowering::fits(ExprId value, DType half, int deep) const {
  static const std::map<std::string, std::size_t> kFirstChoice = {
      {"select", 1},    {"maximum", 0}, {"minimum", 0}, {"neg", 0},
      {"abs", 0},       {"relu", 0},    {"floor", 0},   {"ceil", 0},
      {"trunc", 0},     {"round", 0},   {"sign", 0},    {"threshold", 0},
      {"hardshrink", 0}};
  const ScalarArena& arena = program_.arena;
  const Scalar& node = arena[value];
  if (node.op == ScalarOp::cast) {
    return arena[node.arguments[0]].dtype == half;
  }
  if (node.op == ScalarOp::constant) {
    const auto nearest = as_half(half, node.number);
    return nearest == node.number || std::isnan(node.number);
  }
  if (node.op != ScalarOp::call || deep == 0) return false;
  const auto found = kFirstChoice.find(node.function);
  if (found == kFirstChoice.end()) return false;
  for (std::size_t i = found->second; i < node.arguments.size(); ++i) {
    if (!fits(node.arguments[i], half, deep - 1)) return false;
  }
  return true;
}

Virtual Lowering::broadcast(const Virtual& value, const Shape& shape) {
  if (value.shape() == shape) return value;
  if (shape.size() < value.shape().size()) {
    throw Unsupported{"a broadcast to fewer dimensions"};
  }
  const std::size_t skip = shape.size() - value.shape().size();
  return Virtual(value.dtype(), shape, [=](const Position& at) {
    Position inner(at.begin() + skip, at.end());
    for (std::size_t i = 0; i < inner.size(); ++i) {
      if (value.shape()[i] == 1) inner[i] = Index(0);
    }
    return value.at(inner);
  });
}

Virtual Lowering::reshape(const Virtual& value, const Shape& shape) {
  if (value.shape() == shape) return value;
  if (elements_of(value.shape()) != elements_of(shape)) {
    throw Unsupported{"a view of another number of elements"};
  }
  return Virtual(value.dtype(), shape, [=](const Position& at) {
    const Index flat = flat_offset(at, shape);
    Position inner(value.shape().size());
    std::int64_t stride = 1;
    for (std::size_t i = inner.size(); i-- > 0;) {
      inner[i] = floor_mod(floor_div(flat, stride), value.shape()[i]);
      stride *= value.shape()[i];
    }
    return value.at(inner);
  });
}

std::string Lowering::function_for(const std::string& name, DType dtype) const {
  if (dtype == DType::boolean) return function_of_truth(name);
  return half_functions_ && has_half_variant(name) ? "half_" + name : name;
}

Virtual Lowering::pointwise(const std::string& name, DType dtype,
                            const std::vector<Virtual>& arguments) {
  const std::string function = function_for(name, dtype);
  const DType of = dtype == DType::boolean && !arguments.empty()
                       ? arguments[0].dtype()
                       : dtype;
  if (options_.has_function != nullptr &&
      !options_.has_function(function, of)) {
    throw Unsupported{function + ", a function that the target lacks"};
  }
  Shape shape;
  for (const Virtual& argument : arguments) {
    const Shape& other = argument.shape();
    if (other.size() > shape.size()) {
      shape.insert(shape.begin(), other.size() - shape.size(), 1);
    }
    for (std::size_t i = 0; i < other.size(); ++i) {
      auto& extent = shape[shape.size() - other.size() + i];
      if (extent == 1) extent = other[i];
    }
  }
  std::vector<Virtual> wide;
  for (const Virtual& argument : arguments) {
    wide.push_back(broadcast(argument, shape));
  }
  return Virtual(dtype, shape, [=, this](const Position& at) {
    std::vector<ExprId> ids;
    for (const Virtual& argument : wide) ids.push_back(argument.at(at));
    if (function == "mul" || function == "product") {
      if (const auto x = argument_of_mish(arena(), ids)) {
        return arena().call("mish", dtype, {*x});
      }
    }
    return arena().call(function, dtype, std::move(ids));
  });
}

std::vector<Virtual> Lowering::reduce(Reduction reduction, const Virtual& value,
                                      const Shape& dims) {
  const bool positions =
      reduction == Reduction::argmax || reduction == Reduction::argmin;
  check_reduction(reduction, value, dims);
  Stage stage;
  stage.is_reduction = true;
  stage.reduction = reduction;
  stage.note = note_;
  Position at;
  Shape outer_shape;
  Index flat;
  for (std::size_t i = 0; i < value.shape().size(); ++i) {
    const std::int64_t extent = value.shape()[i];
    const bool reduced = contains(dims, static_cast<std::int64_t>(i));
    Index index;
    if (extent > 1) {
      const LoopVar variable = program_.new_variable(extent);
      (reduced ? stage.inner : stage.outer).push_back(variable);
      index = Index(variable);
    }
    at.push_back(index);
    if (reduced) {
      flat = flat * extent + index;
    } else {
      outer_shape.push_back(extent);
      stage.result_index.push_back(index);
    }
  }
  stage.value = value.at(at);
  if (positions) stage.position = arena().position(flat);
  std::vector<Virtual> results;
  for (const DType dtype : {value.dtype(), DType::i64}) {
    const int buffer = static_cast<int>(program_.buffers.size());
    program_.buffers.push_back(
        {BufferKind::result, dtype, "s" + std::to_string(buffer), outer_shape});
    stage.results.push_back(buffer);
    results.emplace_back(dtype, outer_shape, [=, this](const Position& where) {
      return arena().load(dtype, buffer, where);
    });
    if (!positions) break;
  }
  program_.stages.push_back(std::move(stage));
  return results;
}

Virtual Lowering::restore(const Virtual& value, const Shape& dims) {
  Shape shape = value.shape();
  Shape sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  for (const std::int64_t dim : sorted) shape.insert(shape.begin() + dim, 1);
  return Virtual(value.dtype(), shape, [=](const Position& at) {
    Position inner;
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (!contains(sorted, static_cast<std::int64_t>(i))) {
        inner.push_back(at[i]);
      }
    }
    return value.at(inner);
  });
}

bool Lowering::lies_channels_last(const Virtual& value) {
  const std::size_t rank = value.shape().size();
  if (rank < 3 || value.shape()[1] == 1) return false;
  std::vector<LoopVar> variables;
  Position at;
  for (const std::int64_t extent : value.shape()) {
    variables.push_back(new_variable(extent));
    at.emplace_back(variables.back());
  }
  const Index read = arena().main_read(value.at(at));
  // Where a view has merged batch and channels, one of both is hidden.
  return (read.coefficient(variables[1].id) == 1 ||
          read.hides(variables[1].id)) &&
         read.coefficient(variables.back().id) > 1;
}

const std::vector<std::optional<Virtual>>* Lowering::find(
    const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

const TensorType* Lowering::captured_type(const std::string& name) const {
  const auto found = captured_.find(name);
  return found == captured_.end() ? nullptr : &found->second;
}

void Lowering::declare_input(const Node& node, int position) {
  if (node.values.size() != 1 || !node.values[0]) return;
  const TensorType type = *node.values[0];
  const int buffer = static_cast<int>(program_.buffers.size());
  std::int64_t span = 1;
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    span += (type.shape[i] - 1) * type.stride[i];
  }
  program_.buffers.push_back({BufferKind::input, type.dtype,
                              "in" + std::to_string(position), type.shape,
                              span});
  const Virtual value(type.dtype, type.shape, [=, this](const Position& at) {
    Index offset;
    for (std::size_t i = 0; i < at.size(); ++i) {
      offset = offset + at[i] * type.stride[i];
    }
    return arena().load(type.dtype, buffer, {offset});
  });
  values_[node.name] = {cast(value, computed_in(type.dtype))};
}

void Lowering::store_output(const Virtual& value, const TensorType& type,
                            int position) {
  const int output = static_cast<int>(program_.buffers.size());
  program_.buffers.push_back({BufferKind::output, type.dtype,
                              "out" + std::to_string(position), type.shape});
  store(value, type, output, 0);
}

void Lowering::store(const Virtual& value, const TensorType& type, int output,
                     const Index& offset) {
  if (const Virtual::Pieces* pieces = value.pieces()) {
    Index start = offset;
    for (const Virtual& piece : pieces->values) {
      store(piece, type, output, start);
      start = start + piece.shape()[pieces->dim] * type.stride[pieces->dim];
    }
    return;
  }
  Stage stage;
  stage.output = output;
  stage.offset = offset;
  const Shape& shape = value.shape();
  Position at;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    Index index;
    // A stride of zero means that all of the dimension is one element.
    if (shape[i] > 1 && type.stride[i] != 0) {
      const LoopVar variable = program_.new_variable(shape[i]);
      stage.inner.push_back(variable);
      index = Index(variable);
      stage.offset = stage.offset + index * type.stride[i];
    }
    at.push_back(index);
  }
  stage.value = arena().cast(type.dtype, value.at(at));
  stage.note = "store " + program_.buffers[output].name;
  program_.stages.push_back(std::move(stage));
}

void Lowering::drop_unused() {
  std::set<int> needed;
  std::vector<Stage> remaining;
  for (std::size_t i = program_.stages.size(); i-- > 0;) {
    Stage& stage = program_.stages[i];
    const bool wanted =
        stage.is_store() ||
        std::any_of(stage.results.begin(), stage.results.end(),
                    [&](int buffer) { return needed.contains(buffer); });
    if (!wanted) continue;
    std::vector<ExprId> roots = {stage.value};
    if (stage.is_add) {
      roots.push_back(stage.position);
    } else if (stage.position >= 0 && !needed.contains(stage.results[1])) {
      forget_position(stage);
    }
    for (const ExprId id : arena().reachable(roots)) {
      if (arena()[id].op == ScalarOp::load) needed.insert(arena()[id].buffer);
    }
    remaining.insert(remaining.begin(), std::move(stage));
  }
  program_.stages = std::move(remaining);
}

void Lowering::check_type(const Node& node) const {
  for (const auto& value : node.values) {
    if (!value) continue;
    // Inference hands back empty statistics; nobody reads them.
    if (node.is_tuple && element_count(*value) == 0) continue;
    if (!is_supported(value->dtype, options_)) {
      throw Unsupported{node.name + ": dtype " +
                        std::string(dtype_name(value->dtype))};
    }
    if (element_count(*value) == 0) {
      throw Unsupported{node.name + ": a tensor without elements"};
    }
  }
}

// The half that all floating-point tensors among the arguments are, if any.
DType Lowering::type_of_arguments(const Node& node) const {
  std::set<DType> types;
  const auto look = [&](const Arg& arg) {
    const auto* ref = std::get_if<NodeRef>(&arg.value);
    const TensorType* type =
        ref == nullptr ? nullptr : captured_type(ref->name);
    if (type != nullptr && is_float(type->dtype)) types.insert(type->dtype);
  };
  for (const Arg& arg : node.args) look(arg);
  for (const auto& [name, arg] : node.kwargs) look(arg);
  return types.size() == 1 ? *types.begin() : DType::f32;
}

// Rules know no halves: all that they see is in float32.
std::vector<std::optional<Virtual>> Lowering::call(const Node& node) {
  const Rule* rule = find_rule(node.target);
  if (rule == nullptr) throw Unsupported{node.target + ": no rule"};
  note_ = node.target + " " + node.name;
  result_type_ = DType::f32;
  argument_type_ = type_of_arguments(node);
  Node wide = node;
  for (auto& value : wide.values) {
    if (!value) continue;
    if (is_half(value->dtype)) result_type_ = value->dtype;
    value->dtype = computed_in(value->dtype);
  }
  half_functions_ = options_.half_functions && is_half(result_type_) &&
                    takes_half_functions(node);
  auto values = (*rule)(Call(wide, node, *this));
  round_results(node, values);
  return values;
}

// As PyTorch rounds each operator's result; a conversion that is asked
// for by name always.
void Lowering::round_results(const Node& node,
                             std::vector<std::optional<Virtual>>& values) {
  if (options_.free_rounding && !is_conversion(node)) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i] || i >= node.values.size() || !node.values[i]) continue;
    const DType type = node.values[i]->dtype;
    if (is_half(type) && values[i]->dtype() == DType::f32) {
      values[i] = rounded(*values[i], type);
    }
  }
}

Result<Program> Lowering::run(const Graph& graph) try {
  symbolic_arguments_ = symbolic_arguments(graph);
  int inputs = 0;
  for (const Node& node : graph.nodes) {
    check_type(node);
    if (node.values.size() == 1 && node.values[0]) {
      captured_[node.name] = *node.values[0];
    }
    if (node.kind != NodeKind::call) {
      declare_input(node, inputs++);
      continue;
    }
    auto& values = values_[node.name] = call(node);
    if (options_.keep.contains(node.name)) {
      for (auto& value : values) value = materialized(*value);
    }
  }
  int outputs = 0;
  for (const std::string& name : graph.outputs) {
    const Node* node = graph.find(name);
    const auto* value = find(name);
    if (node == nullptr || value == nullptr || value->size() != 1 ||
        !value->front() || !node->values[0]) {
      throw Unsupported{name + ": not a tensor"};
    }
    store_output(*value->front(), *node->values[0], outputs++);
  }
  drop_unused();
  add_into_outputs();
  return std::move(program_);
} catch (const Unsupported& reason) {
  return fail(ErrorCode::wrong_input, "cannot lower " + reason.what);
}

Result<Program> lower(const Graph& graph, const LoweringOptions& options) {
  return Lowering(options).run(graph);
}

}  // namespace weft
