#include "compiler/cpu/prelude/prelude.hpp"

#include "compiler/cpu/prelude/text.hpp"

namespace weft {

std::string cpu_prelude(int lanes, bool stream_stores) {
  std::string text = "constexpr int W = " + std::to_string(lanes) + ";\n";
  text += "constexpr bool kStream = ";
  text += stream_stores ? "true;\n" : "false;\n";
  return std::string(prelude_includes) + text + prelude_vectors +
         prelude_reducers + prelude_math + prelude_activations;
}

}  // namespace weft
