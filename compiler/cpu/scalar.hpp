// Prints scalar expressions as C++ on vectors of the prelude.
#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/loops/schedule.hpp"

namespace weft {

/// "float" in memory; "f32v" in registers; "mask" for truth values. Halves are
/// their bits: "uint16_t", "u16v".
std::string stored_type(DType dtype);
std::string vector_type(DType dtype);

/// What an expression's text depends on.
struct PrintScope {
  const Schedule* plan = nullptr;
  int vector_variable = -1;             ///< -1: no loop over vectors
  std::map<int, std::string> results;   ///< text of results that are at hand
  std::map<ExprId, std::string> names;  ///< expressions printed already
  std::set<ExprId> halved;              ///< only casts to halves read them
};

/// The expressions below `roots` that only casts to halves read. No
/// multiply-add can be made of such an expression and what follows.
std::set<ExprId> halved_expressions(const ScalarArena& arena,
                                    const std::vector<ExprId>& roots);

/// The text of one expression whose arguments have names. `vectors`: inside
/// the loop over vectors, where `lanes` is known.
std::string expression_text(const PrintScope& scope, ExprId id, bool vectors);

/// A name, or a constant's own text.
std::string operand_text(const PrintScope& scope, ExprId id);

/// "store(out0 + …, value, lanes);", or a scatter where lanes lie apart.
std::string store_text(const PrintScope& scope, const std::string& pointer,
                       const Index& offset, const std::string& value);

/// Statement that adds lanes of `value` to elements of `pointer`: at `offset`
/// moved by `place`, which all lanes share if it `is_one`.
std::string add_text(const PrintScope& scope, const std::string& pointer,
                     const Index& offset, const std::string& indirect_offset,
                     bool is_one, const std::string& value);

/// The prelude's type that reduces what the stage computes.
std::string reducer(const Program& program, const Stage& stage);

}  // namespace weft
