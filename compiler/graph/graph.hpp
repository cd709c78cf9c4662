// The model as captured: a list of ATen calls in execution order, each with
// the shapes and dtypes of what it returns. Plain data; its JSON form, written
// by the capture process, is described in docs/reference/graph.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/graph/part.hpp"
#include "compiler/graph/symbolic_shapes.hpp"
#include "messages/result.hpp"

namespace weft {

/// Complex numbers pass between PyTorch's own operators.
enum class DType {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u8,
  boolean,
  c64,
  c128
};

/// What a tensor looks like; shape and stride in elements, outermost first.
struct TensorType {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> stride;

  bool operator==(const TensorType&) const = default;
};

/// That shape laid out row by row, as tensors are made …
TensorType row_major(DType dtype, std::vector<std::int64_t> shape);
/// … and whether one lies so.
bool is_row_major(const TensorType& type);

/// A reference to an earlier node by its name.
struct NodeRef {
  std::string name;
  bool operator==(const NodeRef&) const = default;
};

/// A framework constant that is no number: kind "dtype", "device", "layout" or
/// "memory_format"; value as PyTorch prints it, without "torch.".
struct Symbol {
  std::string kind;
  std::string value;
  bool operator==(const Symbol&) const = default;
};

/// An argument of a call: a literal, a node, or a list of arguments.
struct Arg {
  using List = std::vector<Arg>;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, NodeRef,
               Symbol, List>
      value;
  bool operator==(const Arg&) const = default;
};

/// A list of numbers.
Arg list_of(const std::vector<std::int64_t>& values);

enum class NodeKind {
  input,      ///< an argument of forward()
  parameter,  ///< read from the module: `target` is its qualified name
  buffer,     ///< likewise; may be mutated (see Graph::mutations)
  constant,  ///< a tensor the module holds without registering it, or a literal
  call,      ///< an ATen call: `target` is "aten.add.Tensor", or "getitem"
};

struct Node {
  std::string name;  ///< unique in its graph, a Python identifier
  NodeKind kind = NodeKind::call;
  std::string target;
  std::vector<Arg> args;
  std::vector<std::pair<std::string, Arg>> kwargs;
  /// One entry a returned value; nullopt where it is no tensor. A call with
  /// several results is read through "getitem" nodes.
  std::vector<std::optional<TensorType>> values;
  bool is_tuple = false;  ///< the call returns a tuple, even if of one
  std::string source;     ///< "problem.py:23" or "": the line it came from
  /// Elements of a small constant, flattened; empty: read it from the module.
  std::vector<double> elements;
  /// Its products are TF32: PyTorch's own were, or the user asked.
  bool tf32 = false;
  bool operator==(const Node&) const = default;
};

/// After the run, the buffer or input `target` holds the value of node `node`.
struct Mutation {
  std::string target;  ///< a buffer's qualified name, or an input node's name
  bool is_input = false;
  std::string node;
  bool operator==(const Mutation&) const = default;
};

struct Graph {
  std::vector<Node> nodes;           ///< in execution order, inputs first
  std::vector<std::string> outputs;  ///< node names, flattened
  /// Python expression that rebuilds forward()'s result from `outputs`, with
  /// {0}, {1}, … for each of them: "{0}", "({0}, {1})", "{{'a': {0}}}".
  std::string output_template = "{0}";
  std::vector<Mutation> mutations;
  bool training = true;  ///< the module's mode while it was captured
  /// The model and all in it, each after what it is in. Empty: not known.
  std::vector<Part> parts;
  /// Which integers depend on symbolic sizes. Passes do not preserve this;
  /// their graphs have none.
  SymbolicShapes symbolic_shapes{};

  /// The node of that name, or nullptr. Linear; build an index for many.
  const Node* find(std::string_view name) const;
  /// That name, or one like it, that no node has.
  std::string unused_name(std::string like) const;
  bool operator==(const Graph&) const = default;
};

/// Reads docs/reference/graph.md's JSON. wrong_input names the node that does
/// not fit.
Result<Graph> parse_graph(std::string_view json);

/// The JSON that parse_graph() reads back to an equal graph.
std::string graph_to_json(const Graph& graph);

/// Elements in a tensor of that type.
std::int64_t element_count(const TensorType& type);

/// Bytes of one element.
std::int64_t element_bytes(DType dtype);

/// "float32", as PyTorch names it; and back.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace weft
