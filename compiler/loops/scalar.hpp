// Scalar expressions: what one iteration computes. A directed graph in an
// arena, where equal expressions are one, so that common work is done once.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/loops/index.hpp"

namespace weft {

using ExprId = int;

enum class ScalarOp {
  constant,  ///< `number`, or `integer` for the integer types
  load,      ///< element `index` of `buffer`; one entry a dimension for results
             ///< (until scheduled; then one flat element offset)
  position,  ///< the value of index[0], an i64
  cast,      ///< to `dtype`
  call,      ///< `function` of the prelude, applied to the arguments
};

/// A load may have a guard, a truth value: where it is false, nothing is read
/// and the element is 0; the index may then be anything, also negative. It may
/// have a place, an i64 that is added to the flat offset: an indirect load.
/// Both are computed before the load, and so are arguments of it. An indirect
/// load is always guarded, as nobody can know what the place will be.
struct Scalar {
  ScalarOp op = ScalarOp::constant;
  DType dtype = DType::f32;
  double number = 0;
  std::int64_t integer = 0;
  int buffer = -1;
  std::vector<Index> index;
  std::string function;  ///< "add", "exp", …: the prelude's names
  std::vector<ExprId> arguments;
  bool guarded = false;      ///< arguments[0] is the load's guard
  bool is_indirect = false;  ///< the last argument is the load's place

  /// -1: none
  ExprId guard() const { return guarded ? arguments.front() : -1; }
  ExprId indirect_offset() const { return is_indirect ? arguments.back() : -1; }
};

class ScalarArena {
 public:
  const Scalar& operator[](ExprId id) const { return nodes_[id]; }

  ExprId constant(DType dtype, double number);
  ExprId integer(DType dtype, std::int64_t number);
  /// A whole number as one of that type, which is told apart from other
  /// constants, and stays so when it is cast: where code is for any size, it
  /// may grow.
  ExprId count(DType dtype, std::int64_t number);
  ExprId load(DType dtype, int buffer, std::vector<Index> index);
  /// The load made conditional: `guard` and what guarded it before.
  ExprId guarded_load(ExprId load, ExprId guard);
  /// Element `index` + `place` of the buffer, where the guard holds.
  ExprId indirect_load(DType dtype, int buffer, const Index& index,
                       ExprId guard, ExprId offset);
  ExprId position(const Index& index);
  ExprId cast(DType dtype, ExprId value);
  ExprId call(std::string function, DType dtype, std::vector<ExprId> arguments);

  /// The same expression, reading only where the guard holds; elsewhere its
  /// value means nothing.
  ExprId guarded(ExprId id, ExprId guard);
  /// The same operation on other arguments.
  ExprId with_arguments(ExprId id, std::vector<ExprId> arguments);
  /// The same expression with the loop variables replaced.
  ExprId substitute(ExprId id, const IndexMap& map);
  /// Every expression under the roots, arguments before users, each once.
  std::vector<ExprId> reachable(const std::vector<ExprId>& roots) const;
  /// Where the value reads most elements of one tensor; constant if nowhere.
  Index main_read(ExprId value) const;
  /// The same, with another word for how many an index reaches.
  Index main_read(
      ExprId value,
      const std::function<std::int64_t(const Index&)>& elements) const;

 private:
  ExprId intern(Scalar node);

  std::vector<Scalar> nodes_;
  std::unordered_map<std::string, ExprId> known_;
};

bool is_float(DType dtype);
/// The nearest number that the half type has, ties to even.
double as_half(DType dtype, double number);
/// Of 16 bits: read and written so, computed in as float32.
bool is_half(DType dtype);

}  // namespace weft
