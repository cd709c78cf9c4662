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

TEST_CASE("of a wrong result the first elements are told, too") {
  BenchBlobs blobs;
  SeedResult result;
  result.built = true;
  result.verdict.reason = "case 0 (normal): output y[3] is 1, expected 2";
  result.verdict.mismatches = {{"y", {0, 3}, "2", "1", "0.4"},
                               {"at", {}, "7", "nan", ""}};
  CHECK(evidence_of(result, blobs) ==
        "case 0 (normal): output y[3] is 1, expected 2\n"
        "The first elements that are wrong:\n"
        "- y[0, 3] is 1, expected 2, error 0.4\n"
        "- at[] is nan, expected 7\n");
}

SeedResult tried(const std::string& id, double us) {
  SeedResult result;
  result.seed.id = id;
  result.seed.round = 1;
  result.seed.variant = "round 1 of llm-0";
  result.seed.method = "wider loads";
  result.verdict.correct = true;
  result.timed = true;
  result.timing.candidate = {us, us, us, 9};
  return result;
}

TEST_CASE("a memory's line has the method and what it gave, in steps of 5 %") {
  const SeedResult before = tried("llm-0", 100);
  CHECK(tried_line(tried("llm-1", 94), &before) ==
        "round 1 of llm-0 (wider loads): right, 94 us: a gain");
  CHECK(tried_line(tried("llm-1", 97), &before).ends_with("97 us: no gain"));
  CHECK(tried_line(tried("llm-1", 130), &before)
            .ends_with("130 us: slower than before"));
  CHECK(tried_line(tried("llm-1", 97)).ends_with("right, 97 us"));
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
