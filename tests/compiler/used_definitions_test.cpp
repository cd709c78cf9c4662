#include "compiler/text/used_definitions.hpp"

#include <doctest/doctest.h>

#include <string>

namespace weft {
namespace {

const std::string kUsed = R"(#include <cmath>
#define TWICE(x) doubled(x)
namespace {
// Why it is so: "quoted { ".
constexpr int W = 16;
template <class T, int N = (W > 2 ? 1 : 0)>
inline T doubled(T value) {
  return value * 2 + helper('}', "{");
}
inline int helper(char, const char*) { return W; }
template <>
struct Kept<float> {
  int field;
};
using kept = Kept<float>;
}  // namespace
extern "C" void kernel_function(float* y) {
  kept k{1};
  y[0] = TWICE(y[1]) + k.field;
}
)";

std::string with(const std::string& before, const std::string& added) {
  std::string text = kUsed;
  return text.insert(text.find(before), added);
}

TEST_CASE("definitions that are used stay, whatever uses them") {
  CHECK(used_definitions(kUsed) == kUsed);
}

TEST_CASE("definitions that nothing uses go, with their comments") {
  for (const char* unused :
       {"// Says nothing.\ninline int unused(int a) { return a; }\n",
        "template <class T>\nusing unused_type = T*;\n",
        "struct Unused {\n  int a = 0;\n};\n", "constexpr int kUnused = 3;\n",
        "inline int calls_itself(int a) { return calls_itself(a); }\n"}) {
    CAPTURE(unused);
    CHECK(used_definitions(with("inline int helper", unused)) == kUsed);
  }
}

TEST_CASE("a macro's calls define what they name, if something uses it") {
  const std::string macros =
      "#define EACH(name)                              \\\n"
      "  inline int name(int a) { return std::name(a); }\n";
  const std::string unused =
      macros + "EACH(sin)\nEACH(cos) inline int other(int a) { return a; }\n";
  CHECK(used_definitions(with("inline int helper", unused)) == kUsed);
  const std::string used = with(
      "inline int helper", macros +
                               "EACH(sin)\nEACH(called) EACH(cos)\n"
                               "inline int more() { return called(1); }\n");
  std::string text = used;
  text.replace(text.find("doubled(x)"), 10, "more()");
  const std::string shown = used_definitions(text);
  CHECK(shown.contains("#define EACH(name)"));
  CHECK(shown.contains("EACH(called)"));
  CHECK_FALSE(shown.contains("EACH(sin)"));
  CHECK_FALSE(shown.contains("EACH(cos)"));
}

TEST_CASE("what is not recognised stays") {
  for (const char* kept :
       {"typedef float lanes __attribute__((vector_size(64)));\n",
        "inline bool operator==(A, B) { return true; }\n",
        "static_assert(sizeof(int) == 4);\n"}) {
    CAPTURE(kept);
    const std::string text = with("inline int helper", kept);
    CHECK(used_definitions(text) == text);
  }
}

}  // namespace
}  // namespace weft
