// The text behind cpu_prelude(), in the order in which it is printed.
#pragma once

namespace weft {

extern const char* const prelude_includes;
extern const char* const prelude_vectors;
extern const char* const prelude_reducers;
extern const char* const prelude_math;
extern const char* const prelude_activations;

}  // namespace weft
