// Builds small graphs for tests, one line a node.
#pragma once

#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace weft {

inline TensorType dense(std::vector<std::int64_t> shape,
                        DType dtype = DType::f32) {
  TensorType type{dtype, std::move(shape), {}};
  std::int64_t stride = 1;
  for (auto size = type.shape.rbegin(); size != type.shape.rend(); ++size) {
    type.stride.insert(type.stride.begin(), stride);
    stride *= *size;
  }
  return type;
}

class GraphBuilder {
 public:
  GraphBuilder& placeholder(NodeKind kind, const std::string& name,
                            TensorType type, std::string target = "") {
    Node node;
    node.name = name;
    node.kind = kind;
    node.target = target.empty() ? name : target;
    node.values = {std::move(type)};
    graph.nodes.push_back(std::move(node));
    return *this;
  }

  GraphBuilder& input(const std::string& name, TensorType type) {
    return placeholder(NodeKind::input, name, std::move(type));
  }

  /// A call of aten.<op>.default on nodes, then other arguments.
  GraphBuilder& call(const std::string& name, const std::string& op,
                     const std::vector<std::string>& refs, TensorType type,
                     std::vector<Arg> more = {}) {
    Node node;
    node.name = name;
    node.target = op.find('.') == std::string::npos ? "aten." + op + ".default"
                                                    : "aten." + op;
    for (const std::string& ref : refs) node.args.push_back({NodeRef{ref}});
    for (Arg& arg : more) node.args.push_back(std::move(arg));
    node.values = {std::move(type)};
    graph.nodes.push_back(std::move(node));
    return *this;
  }

  /// A call that returns a tuple of tensors of that type.
  GraphBuilder& tuple(const std::string& name, const std::string& op,
                      const std::vector<std::string>& refs,
                      const std::vector<TensorType>& types) {
    call(name, op, refs, types.front());
    graph.nodes.back().values.assign(types.begin(), types.end());
    graph.nodes.back().is_tuple = true;
    return *this;
  }

  GraphBuilder& getitem(const std::string& name, const std::string& of,
                        std::int64_t index) {
    Node node;
    node.name = name;
    node.target = "getitem";
    node.args.push_back(Arg{NodeRef{of}});
    node.args.push_back(Arg{index});
    node.values = {graph.find(of)->values[index]};
    graph.nodes.push_back(std::move(node));
    return *this;
  }

  GraphBuilder& outputs(std::vector<std::string> names) {
    graph.outputs = std::move(names);
    return *this;
  }

  Graph graph;
};

}  // namespace weft
