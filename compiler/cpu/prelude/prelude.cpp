#include "compiler/cpu/prelude/prelude.hpp"

#include "embedded/compiler/cpu/prelude/activations.prelude.hpp"
#include "embedded/compiler/cpu/prelude/half_functions.prelude.hpp"
#include "embedded/compiler/cpu/prelude/halves.prelude.hpp"
#include "embedded/compiler/cpu/prelude/includes.prelude.hpp"
#include "embedded/compiler/cpu/prelude/math.prelude.hpp"
#include "embedded/compiler/cpu/prelude/reducers.prelude.hpp"
#include "embedded/compiler/cpu/prelude/vectors.prelude.hpp"

namespace weft {

std::string cpu_prelude(int vector_width, bool stream_stores,
                        bool free_rounding) {
  std::string text =
      "constexpr int W = " + std::to_string(vector_width) + ";\n";
  text += "constexpr bool kStream = ";
  text += stream_stores ? "true;\n" : "false;\n";
  text += "constexpr bool kFreeRounding = ";
  text += free_rounding ? "true;\n" : "false;\n";
  return std::string(embedded::compiler_cpu_prelude_includes) + text +
         embedded::compiler_cpu_prelude_vectors +
         embedded::compiler_cpu_prelude_halves +
         embedded::compiler_cpu_prelude_reducers +
         embedded::compiler_cpu_prelude_math +
         embedded::compiler_cpu_prelude_activations +
         embedded::compiler_cpu_prelude_half_functions;
}

}  // namespace weft
