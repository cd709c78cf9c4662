#include "compiler/compose/pass_on_source.hpp"

#include "compiler/text/python_text.hpp"
#include "embedded/compiler/compose/python/pass_on.py"

namespace weft {

std::string pass_on_source() {
  return std::string("import warnings\n\n") +
         embedded::compiler_compose_python_pass_on;
}

std::string watched_condition() {
  // In this order: a compiler that reads forward() takes the first for true.
  return "torch.compiler.is_compiling() or _weft_watched()";
}

std::string pass_on_text(const std::string& forward,
                         const std::vector<Condition>& conditions,
                         const std::string& indent) {
  std::string text = "_weft_pass_on(" + forward + ", (";
  for (const Condition& condition : conditions) {
    text += "\n" + indent + "(lambda: " + condition.code + ",\n" + indent +
            " " + python_string(condition.otherwise) + "),";
  }
  return text + "))";
}

}  // namespace weft
