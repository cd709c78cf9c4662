// The problem file's text, taken apart where the composed module differs from
// it: class Model becomes ModelNew, and its forward makes room for another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"

namespace weft {

/// One parameter of forward(), as written in its header.
struct PythonParameter {
  enum class Kind { ordinary, keyword_only, positional_rest, keyword_rest };
  std::string name;
  Kind kind = Kind::ordinary;
  bool has_default = false;
};

/// The text in pieces: before + (what goes before the class) + model + (the
/// new methods) + after. Everywhere the name Model reads ModelNew, except in
/// comments, strings, attributes (x.Model) and keyword arguments.
struct ProblemSource {
  std::string before;
  std::string model;  ///< the class, with forward named forward_reference
  std::string after;
  std::string indent;  ///< of a method's def
  std::string header;  ///< forward()'s parameter list: "(self, x)"
  std::vector<PythonParameter> parameters;  ///< without the first
  std::string self = "self";                ///< the first's name
};

/// wrong_input when there is no top-level `class Model` with a forward of its
/// own, or ModelNew exists already.
Result<ProblemSource> split_problem(std::string_view source);

/// The text with Model renamed, forward as it was.
Result<std::string> rename_model(std::string_view source);

}  // namespace weft
