#include "compiler/graph/graph_json.hpp"

#include <cmath>
#include <limits>

#include "compiler/graph/graph_check.hpp"
#include "messages/parse_json.hpp"

namespace weft {

namespace {

constexpr int kArgDepthMax = 16;

std::string_view kind_name(NodeKind kind) {
  switch (kind) {
    case NodeKind::input:
      return "input";
    case NodeKind::parameter:
      return "parameter";
    case NodeKind::buffer:
      return "buffer";
    case NodeKind::constant:
      return "constant";
    case NodeKind::call:
      return "call";
  }
  return "";
}

std::optional<NodeKind> kind_from_name(std::string_view name) {
  for (NodeKind kind : {NodeKind::input, NodeKind::parameter, NodeKind::buffer,
                        NodeKind::constant, NodeKind::call}) {
    if (kind_name(kind) == name) return kind;
  }
  return std::nullopt;
}

std::unexpected<Error> misfit(const std::string& where,
                              const std::string& what) {
  return fail(ErrorCode::wrong_input, "captured graph: " + where + ": " + what);
}

/// A number that JSON has no literal for travels as {"float": "inf"}.
Json number_to_value(double number) {
  if (std::isnan(number)) return Json{{"float", "nan"}};
  if (std::isinf(number)) {
    return Json{{"float", number > 0 ? "inf" : "-inf"}};
  }
  return number;
}

std::optional<double> special_float(std::string_view name) {
  if (name == "inf") return std::numeric_limits<double>::infinity();
  if (name == "-inf") return -std::numeric_limits<double>::infinity();
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

std::optional<double> number_from_value(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (value.is_object() && value.size() == 1 && value.contains("float") &&
      value["float"].is_string()) {
    return special_float(value["float"].get<std::string>());
  }
  return std::nullopt;
}

Json type_to_value(const TensorType& type) {
  return Json{{"dtype", dtype_name(type.dtype)},
              {"shape", type.shape},
              {"stride", type.stride}};
}

std::optional<std::vector<std::int64_t>> sizes_from_value(const Json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<std::int64_t> sizes;
  for (const Json& size : value) {
    if (!size.is_number_integer()) return std::nullopt;
    sizes.push_back(size.get<std::int64_t>());
  }
  return sizes;
}

std::string text_of(const Json& object, const char* field) {
  auto found = object.find(field);
  if (found == object.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

bool flag_of(const Json& object, const char* field, bool otherwise) {
  auto found = object.find(field);
  if (found == object.end() || !found->is_boolean()) return otherwise;
  return found->get<bool>();
}

/// The list in that field; a missing or wrong one reads as empty.
const Json& list_of(const Json& object, const char* field) {
  static const Json kEmpty = Json::array();
  auto found = object.find(field);
  return found != object.end() && found->is_array() ? *found : kEmpty;
}

Result<TensorType> type_from_value(const Json& value,
                                   const std::string& where) {
  if (!value.is_object()) return misfit(where, "a value is no tensor type");
  const std::string name = text_of(value, "dtype");
  auto dtype = dtype_from_name(name);
  if (!dtype) return misfit(where, "unsupported dtype '" + name + "'");
  auto shape = sizes_from_value(list_of(value, "shape"));
  auto stride = sizes_from_value(list_of(value, "stride"));
  if (!shape || !stride || shape->size() != stride->size()) {
    return misfit(where, "shape and stride must be equally long integer lists");
  }
  return TensorType{*dtype, *shape, *stride};
}

Result<Arg> arg_from_value(const Json& value, const std::string& where,
                           int depth = 0) {
  if (depth > kArgDepthMax) return misfit(where, "arguments nested too deep");
  if (value.is_null()) return Arg{};
  if (value.is_boolean()) return Arg{value.get<bool>()};
  if (value.is_number_integer()) return Arg{value.get<std::int64_t>()};
  if (value.is_number()) return Arg{value.get<double>()};
  if (value.is_string()) return Arg{value.get<std::string>()};
  if (value.is_array()) {
    Arg::List list;
    for (const Json& item : value) {
      auto arg = arg_from_value(item, where, depth + 1);
      if (!arg) return arg;
      list.push_back(std::move(*arg));
    }
    return Arg{std::move(list)};
  }
  if (value.size() != 1 || !value.begin()->is_string()) {
    return misfit(where, "argument " + value.dump() + " is not understood");
  }
  const std::string& key = value.begin().key();
  const auto text = value.begin()->get<std::string>();
  if (key == "node") return Arg{NodeRef{text}};
  if (key == "float") {
    if (auto number = special_float(text)) return Arg{*number};
  }
  if (key == "dtype" || key == "device" || key == "layout" ||
      key == "memory_format") {
    return Arg{Symbol{key, text}};
  }
  return misfit(where, "argument " + value.dump() + " is not understood");
}

Json node_to_value(const Node& node) {
  Json args = Json::array();
  for (const Arg& arg : node.args) args.push_back(arg_to_value(arg));
  Json kwargs = Json::object();
  for (const auto& [key, arg] : node.kwargs) kwargs[key] = arg_to_value(arg);
  Json values = Json::array();
  for (const auto& value : node.values) {
    values.push_back(value ? type_to_value(*value) : Json());
  }
  Json elements = Json::array();
  for (double element : node.elements) {
    elements.push_back(number_to_value(element));
  }
  Json value{{"name", node.name},         {"kind", kind_name(node.kind)},
             {"target", node.target},     {"args", args},
             {"kwargs", kwargs},          {"values", values},
             {"is_tuple", node.is_tuple}, {"source", node.source},
             {"elements", elements}};
  if (node.tf32) value["tf32"] = true;
  return value;
}

Json part_to_value(const Part& part) {
  Json settings = Json::object();
  for (const auto& [name, text] : part.settings) settings[name] = text;
  return Json{{"module", part.module}, {"class", part.kind},
              {"hooks", part.hooks},   {"size", part.size},
              {"settings", settings},  {"absent", part.absent},
              {"empty", part.empty}};
}

Result<Part> part_from_value(const Json& value) {
  if (!value.is_object()) return misfit("parts", "not an object");
  Part part;
  part.module = text_of(value, "module");
  part.kind = text_of(value, "class");
  part.size = value.value("size", Json()).is_number_integer()
                  ? value["size"].get<std::int64_t>()
                  : 0;
  for (auto [field, names] :
       {std::pair{"hooks", &part.hooks}, std::pair{"absent", &part.absent},
        std::pair{"empty", &part.empty}}) {
    auto read = strings_from_value(list_of(value, field), field);
    if (!read) return std::unexpected(read.error());
    *names = std::move(*read);
  }
  const auto settings = value.find("settings");
  if (settings == value.end() || !settings->is_object()) return part;
  for (const auto& [name, text] : settings->items()) {
    if (!text.is_string()) return misfit("part " + part.module, "no text");
    part.settings.emplace_back(name, text.get<std::string>());
  }
  return part;
}

Result<void> read_arguments(const Json& value, const std::string& where,
                            Node& node) {
  for (const Json& item : list_of(value, "args")) {
    auto arg = arg_from_value(item, where);
    if (!arg) return std::unexpected(arg.error());
    node.args.push_back(std::move(*arg));
  }
  auto kwargs = value.find("kwargs");
  if (kwargs == value.end() || !kwargs->is_object()) return {};
  for (const auto& [key, item] : kwargs->items()) {
    auto arg = arg_from_value(item, where);
    if (!arg) return std::unexpected(arg.error());
    node.kwargs.emplace_back(key, std::move(*arg));
  }
  return {};
}

Result<Node> node_from_value(const Json& value, std::size_t index) {
  Node node;
  node.name = value.is_object() ? text_of(value, "name") : "";
  const std::string where =
      "node " + (node.name.empty() ? std::to_string(index) : node.name);
  if (node.name.empty()) return misfit(where, "it has no name");
  auto kind = kind_from_name(text_of(value, "kind"));
  if (!kind) {
    return misfit(where, "unknown kind '" + text_of(value, "kind") + "'");
  }
  node.kind = *kind;
  node.target = text_of(value, "target");
  node.is_tuple = flag_of(value, "is_tuple", false);
  node.source = text_of(value, "source");
  node.tf32 = flag_of(value, "tf32", false);
  if (auto read = read_arguments(value, where, node); !read) {
    return std::unexpected(read.error());
  }
  for (const Json& item : list_of(value, "values")) {
    if (item.is_null()) {
      node.values.emplace_back();
      continue;
    }
    auto type = type_from_value(item, where);
    if (!type) return std::unexpected(type.error());
    node.values.emplace_back(std::move(*type));
  }
  for (const Json& item : list_of(value, "elements")) {
    auto number = number_from_value(item);
    if (!number) return misfit(where, "an element is no number");
    node.elements.push_back(*number);
  }
  // A Python number given to forward(): keep whether it is an integer.
  const bool is_number = node.kind == NodeKind::input &&
                         node.elements.size() == 1 && node.args.empty() &&
                         node.values.size() == 1 && !node.values.front();
  if (is_number) {
    auto number = arg_from_value(list_of(value, "elements").front(), where);
    if (!number) return std::unexpected(number.error());
    node.args.push_back(std::move(*number));
  }
  return node;
}

/// A number, or as many as are wanted; nothing of anything else.
std::optional<std::vector<std::int64_t>> numbers_of(const Json& value,
                                                    std::size_t count) {
  std::vector<std::int64_t> numbers;
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& item : list) {
    if (!item.is_number_integer()) return std::nullopt;
    numbers.push_back(item.get<std::int64_t>());
  }
  if (numbers.size() != count) return std::nullopt;
  return numbers;
}

bool is_integer_at(const Json& graph, const std::string& pointer) {
  if (!pointer.starts_with('/')) return false;
  try {  // the library checks a pointer by exceptions only
    return graph.at(Json::json_pointer(pointer)).is_number_integer();
  } catch (const Json::exception&) {
    return false;
  }
}

/// Every number that is symbolic is there, and is a whole one.
Result<SymbolicShapes> symbolic_shapes_from_value(const Json& symbol,
                                                  const Json& graph) {
  const Json size = symbol.is_object() ? symbol.value("size", Json()) : Json();
  const std::size_t count = size.is_array() ? size.size() : 1;
  auto sizes = numbers_of(size, count);
  if (!sizes || count == 0 || count > kSymbolsMax) {
    return misfit("symbol", "has no size");
  }
  SymbolicShapes symbolic_shapes{std::move(*sizes), {}};
  const Json grows = symbol.value("grows", Json::object());
  for (const auto& [pointer, value] : grows.items()) {
    const auto numbers = numbers_of(value, value.is_array() ? value.size() : 1);
    const auto coefficients =
        numbers ? coefficients_of(*numbers, count) : std::nullopt;
    if (!coefficients || !is_integer_at(graph, pointer)) {
      return misfit("symbol", pointer + " is no integer in it");
    }
    symbolic_shapes.coefficients[pointer] = *coefficients;
  }
  return symbolic_shapes;
}

/// {pointer: the list of its rates, or the number that is alone in it}.
Json symbolic_shapes_to_value(const SymbolicShapes& symbolic_shapes) {
  Json grows = Json::object();
  for (const auto& [pointer, coefficients] : symbolic_shapes.coefficients) {
    grows[pointer] =
        sizes_to_value(list_of(coefficients, symbolic_shapes.sizes.size()));
  }
  return {{"size", sizes_to_value(symbolic_shapes.sizes)}, {"grows", grows}};
}

}  // namespace

Json sizes_to_value(const Sizes& sizes) {
  if (sizes.size() == 1) return sizes[0];
  return sizes;
}

Json arg_to_value(const Arg& arg) {
  struct Writer {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(bool value) const { return value; }
    Json operator()(std::int64_t value) const { return value; }
    Json operator()(double value) const { return number_to_value(value); }
    Json operator()(const std::string& value) const { return value; }
    Json operator()(const NodeRef& ref) const {
      return Json{{"node", ref.name}};
    }
    Json operator()(const Symbol& symbol) const {
      return Json{{symbol.kind, symbol.value}};
    }
    Json operator()(const Arg::List& list) const {
      Json items = Json::array();
      for (const Arg& item : list) items.push_back(arg_to_value(item));
      return items;
    }
  };
  return std::visit(Writer{}, arg.value);
}

Json graph_to_value(const Graph& graph) {
  Json nodes = Json::array();
  for (const Node& node : graph.nodes) nodes.push_back(node_to_value(node));
  Json mutations = Json::array();
  for (const Mutation& mutation : graph.mutations) {
    mutations.push_back(Json{{"target", mutation.target},
                             {"is_input", mutation.is_input},
                             {"node", mutation.node}});
  }
  Json value{{"version", 1},
             {"nodes", nodes},
             {"outputs", graph.outputs},
             {"output_template", graph.output_template},
             {"mutations", mutations},
             {"training", graph.training}};
  // A subgraph has none, and what is journalled of it stays as it always was.
  for (const Part& part : graph.parts) {
    value["parts"].push_back(part_to_value(part));
  }
  if (!graph.symbolic_shapes.sizes.empty()) {
    value["symbol"] = symbolic_shapes_to_value(graph.symbolic_shapes);
  }
  return value;
}

Result<std::vector<std::string>> strings_from_value(const Json& value,
                                                    const std::string& what) {
  if (!value.is_array()) return misfit(what, "not a list of names");
  std::vector<std::string> strings;
  for (const Json& item : value) {
    if (!item.is_string()) return misfit(what, "not a list of names");
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

Result<Graph> graph_from_value(const Json& value) {
  if (!value.is_object()) return misfit("top level", "not a JSON object");
  if (value.value("version", Json()) != Json(1)) {
    return misfit("version", "must be 1");
  }
  Graph graph;
  for (const Json& item : list_of(value, "nodes")) {
    auto node = node_from_value(item, graph.nodes.size());
    if (!node) return std::unexpected(node.error());
    graph.nodes.push_back(std::move(*node));
  }
  auto outputs = strings_from_value(list_of(value, "outputs"), "outputs");
  if (!outputs) return std::unexpected(outputs.error());
  graph.outputs = std::move(*outputs);
  if (auto text = text_of(value, "output_template"); !text.empty()) {
    graph.output_template = text;
  }
  for (const Json& item : list_of(value, "mutations")) {
    if (!item.is_object()) return misfit("mutations", "not an object");
    graph.mutations.push_back({text_of(item, "target"),
                               flag_of(item, "is_input", false),
                               text_of(item, "node")});
  }
  graph.training = flag_of(value, "training", true);
  for (const Json& item : list_of(value, "parts")) {
    auto part = part_from_value(item);
    if (!part) return std::unexpected(part.error());
    graph.parts.push_back(std::move(*part));
  }
  if (const Json symbol = value.value("symbol", Json()); !symbol.is_null()) {
    auto symbolic_shapes = symbolic_shapes_from_value(symbol, value);
    if (!symbolic_shapes) return std::unexpected(symbolic_shapes.error());
    graph.symbolic_shapes = std::move(*symbolic_shapes);
  }
  if (auto checked = check_graph(graph); !checked) {
    return std::unexpected(checked.error());
  }
  return graph;
}

Result<Graph> parse_graph(std::string_view json) {
  const Json value = parse_json<Json>(json);
  if (value.is_discarded()) return misfit("text", "not valid JSON");
  return graph_from_value(value);
}

std::string graph_to_json(const Graph& graph) {
  // A name that is not UTF-8 must not throw half-way through a run.
  return graph_to_value(graph).dump(-1, ' ', false,
                                    Json::error_handler_t::replace);
}

}  // namespace weft
