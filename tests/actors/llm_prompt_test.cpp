#include "actors/llm_prompt.hpp"

#include <doctest/doctest.h>

#include "actors/llm_templates.hpp"
#include "tests/actors/bench.hpp"

namespace weft {
namespace {

TEST_CASE("of a compiler's errors the first is told, with what failed") {
  BenchBlobs blobs;
  SeedResult result;
  result.verdict.reason =
      "the candidate cannot be loaded\nk.cpp: In function 'run':\n"
      "k.cpp:3:5: error: 'u' was not declared\n    3 |  u = 1;\n"
      "k.cpp:4:5: error: expected ';'\n    4 |  v\n";
  result.built = true;
  CHECK(evidence_of(result, blobs) ==
        "the candidate cannot be loaded\n"
        "k.cpp:3:5: error: 'u' was not declared\n    3 |  u = 1;\n");
  result.verdict.reason = "case 0 (normal): output y[3] is 1, expected 2";
  CHECK(evidence_of(result, blobs) == result.verdict.reason);
}

TEST_CASE("the user's template goes before the built-in one") {
  BenchBlobs blobs;
  LlmOptions options;
  CHECK(template_text("first", options, blobs)->contains("{{best}}"));
  options.prompts = {{"first", blobs.put("mine: {{best}}")}};
  const auto text = template_text("first", options, blobs);
  REQUIRE(text);
  CHECK(filled(*text, {{"best", "b"}}) == "mine: b");
  CHECK_FALSE(template_text("none", options, blobs));
}

TEST_CASE("each built-in template has the words that it says, and no other") {
  for (const LlmTemplate& one : llm_templates()) {
    CAPTURE(one.name);
    CHECK(unknown_words(one, one.text).empty());
    for (const std::string_view word : one.words) {
      CHECK(one.text.contains("{{" + std::string(word) + "}}"));
    }
  }
  CHECK(unknown_words(llm_templates().front(), "{{a}}") ==
        std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace weft
