#include "compiler/text/python_lexer.hpp"

#include <doctest/doctest.h>

#include <string>

namespace weft {
namespace {

/// "n:x o:= t:'a'" for x = 'a'.
std::string shown(std::string_view source) {
  std::string text;
  for (const PythonToken& token : python_tokens(source)) {
    const char kind = "ntdc;o"[static_cast<int>(token.kind)];
    text += text.empty() ? "" : " ";
    text += kind;
    if (token.kind == PythonTokenKind::newline) continue;
    text += ':';
    text += source.substr(token.begin, token.end - token.begin);
  }
  return text;
}

TEST_CASE("names, numbers, strings and comments are told apart") {
  CHECK(shown("x1 = 'a'  # Model\n") == "n:x1 o:= t:'a' c:# Model ;");
  CHECK(shown("y = 0x1F\n") == "n:y o:= d:0x1F ;");
}

TEST_CASE("strings end where Python ends them") {
  CHECK(shown(R"(a = 'it\'s' b)") == R"(n:a o:= t:'it\'s' n:b ;)");
  CHECK(shown("a = \"\"\"x\n\"y\"\n\"\"\"") ==
        "n:a o:= t:\"\"\"x\n\"y\"\n\"\"\" ;");
  CHECK(shown("f'{x}' rb\"\\\"\" bar") == "t:f'{x}' t:rb\"\\\"\" n:bar ;");
  CHECK(shown("a = 'open\nb") == "n:a o:= t:'open ; n:b ;");
  CHECK(shown("'''never closed") == "t:'''never closed ;");
}

TEST_CASE("brackets and backslashes join lines") {
  CHECK(shown("f(a,\n  b)\nc") == "n:f o:( n:a o:, n:b o:) ; n:c ;");
  CHECK(shown("a = \\\n  b\n") == "n:a o:= n:b ;");
}

TEST_CASE("a line's indentation is its first token's column") {
  const auto tokens = python_tokens("class A:\n    # note\n    x = (\n1)\n");
  CHECK(tokens.front().indent == 0);
  for (const PythonToken& token : tokens) {
    if (token.kind == PythonTokenKind::number) {
      CHECK(token.indent == 4);
      CHECK(token.depth == 1);
    }
  }
}

TEST_CASE("blank lines are no lines") {
  CHECK(shown("\n\n  \na\n\n") == "n:a ;");
}

}  // namespace
}  // namespace weft
