// Scalar expressions: what one iteration computes. A directed graph in an
// arena, where equal expressions are one, so that common work is done once.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/graph.hpp"
#include "compiler/index.hpp"

namespace weft {

using ExprId = int;

enum class ScalarOp {
  constant,  ///< `number`, or `integer` for the integer types
  load,      ///< element `index` of `buffer`; one entry a dimension for results
  position,  ///< the value of index[0], an i64
  cast,      ///< to `dtype`
  call,      ///< `function` of the prelude, applied to the arguments
};

struct Scalar {
  ScalarOp op = ScalarOp::constant;
  DType dtype = DType::f32;
  double number = 0;
  std::int64_t integer = 0;
  int buffer = -1;
  std::vector<Index> index;
  std::string function;  ///< "add", "exp", …: the prelude's names
  std::vector<ExprId> arguments;
};

class ScalarArena {
 public:
  const Scalar& operator[](ExprId id) const { return nodes_[id]; }

  ExprId constant(DType dtype, double number);
  ExprId integer(DType dtype, std::int64_t number);
  ExprId load(DType dtype, int buffer, std::vector<Index> index);
  ExprId position(const Index& index);
  ExprId cast(DType dtype, ExprId value);
  ExprId call(std::string function, DType dtype, std::vector<ExprId> arguments);

  /// The same expression with the loop variables replaced.
  ExprId substitute(ExprId id, const IndexMap& map);
  /// Every expression under the roots, arguments before users, each once.
  std::vector<ExprId> reachable(const std::vector<ExprId>& roots) const;

 private:
  ExprId intern(Scalar node);

  std::vector<Scalar> nodes_;
  std::unordered_map<std::string, ExprId> known_;
};

bool is_float(DType dtype);

}  // namespace weft
