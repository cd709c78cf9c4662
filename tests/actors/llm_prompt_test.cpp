#include <doctest/doctest.h>

#include "actors/llm/facts.hpp"
#include "actors/llm/history.hpp"
#include "actors/llm/prompt.hpp"
#include "actors/llm/templates.hpp"
#include "compiler/graph/graph.hpp"
#include "tests/actors/role_fixture.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

TEST_CASE("of a compiler's errors the first is told, with what failed") {
  FixtureBlobs blobs;
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
  FixtureBlobs blobs;
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

SeedResult tried(const std::string& id, double ratio) {
  SeedResult result;
  result.seed.id = id;
  result.seed.round = 1;
  result.seed.parent = "llm-0";
  result.seed.idea = "wider loads";
  result.verdict.correct = true;
  result.timed = true;
  const double us = 100 / ratio;
  result.timing.candidate = {us, us, us, 9};
  result.timing.over_eager = {ratio, ratio, ratio};
  return result;
}

TEST_CASE("a memory's line has the idea and the gain over the parent") {
  const SeedResult before = tried("llm-0", 2);
  CHECK(tried_line(tried("llm-1", 2.5), &before) ==
        "round 1, llm-1 from llm-0 (wider loads): correct, 2.5x eager (95 % "
        "interval 2.5 to 2.5); 40 us: 25 % faster than llm-0");
  CHECK(tried_line(tried("llm-1", 1.6), &before)
            .ends_with("25 % slower than llm-0"));
  CHECK(tried_line(tried("llm-1", 2), &before).ends_with("as fast as llm-0"));
  CHECK(tried_line(tried("llm-1", 2)).ends_with("; 50 us"));
  SeedResult noisy = tried("llm-1", 1.6);
  noisy.timing.over_eager = {1.6, 1, 3};
  CHECK(tried_line(noisy, &before)
            .ends_with("25 % slower than llm-0, which may be noise: the "
                       "intervals overlap"));
  SeedResult wrong = tried("llm-2", 1);
  wrong.verdict.correct = false;
  wrong.verdict.kind = "wrong";
  wrong.verdict.reason = "case 2 (uniform): y[0] is 1";
  wrong.seed.review = "the tail was the fault";
  CHECK(
      tried_line(wrong, &before) ==
      "round 1, llm-2 from llm-0 (wider loads): wrong, case 2 (uniform): y[0] "
      "is 1. Your review then: the tail was the fault");
}

TEST_CASE("a kernel's notes are the comments at its top") {
  const auto notes = notes_of(
      "\n# idea:  one pass \n# expect: 2x\n# review: it was memory\n"
      "import torch\n# idea: another\n");
  CHECK(notes.idea == "one pass");
  CHECK(notes.review == "it was memory");
  CHECK(notes_of("import torch\n# idea: late\n").idea.empty());
}

TEST_CASE("the best idea that failed is shown as a difference") {
  FixtureBlobs blobs;
  const auto with_source = [&](SeedResult result, const std::string& text) {
    result.seed.source = blobs.put(text);
    result.seed.target = "python";
    return result;
  };
  RefineRequest request;
  auto first = with_source(tried("llm-0", 2), "a\nb\nc\n");
  first.seed.parent.clear();
  const auto slower = with_source(tried("llm-1", 1.9), "a\nx\nc\n");
  auto wrong = with_source(tried("llm-2", 1), "a\nb\nz\n");
  wrong.verdict.correct = wrong.timed = false;
  request.history = {first, slower, wrong};
  request.seed = first.seed;
  request.result = first;
  auto unknown = with_source(tried("llm-3", 1), "a\nb\nu\n");
  unknown.verdict.correct = unknown.timed = false;
  unknown.failure = {"failed", "no answer within the time limit"};
  request.history.push_back(unknown);
  const std::string text = history_text(request, blobs);
  CHECK(text.contains("): not verified, no answer within the time limit\n"));
  CHECK_FALSE(text.contains("+ u"));
  CHECK(text.contains("The change from llm-0 to llm-1, which did not help:"));
  CHECK(text.contains("- b\n+ x\n"));
  CHECK_FALSE(text.contains("+ z"));
}

TEST_CASE("the user's template goes before the built-in one") {
  FixtureBlobs blobs;
  LlmOptions options;
  CHECK(template_text("propose", options, blobs)->contains("{{unusable}}"));
  options.prompts = {{"propose", blobs.put("mine: {{unusable}}")}};
  const auto text = template_text("propose", options, blobs);
  REQUIRE(text);
  CHECK(filled(*text, {{"unusable", "b"}}) == "mine: b");
  CHECK_FALSE(template_text("none", options, blobs));
}

TEST_CASE("each built-in template has the words that it says, and no other") {
  for (const LlmTemplate& llm_template : llm_templates()) {
    CAPTURE(llm_template.name);
    CHECK(unknown_words(llm_template, llm_template.text).empty());
    for (const std::string_view word : llm_template.words) {
      CHECK(llm_template.text.contains("{{" + std::string(word) + "}}"));
    }
  }
  CHECK(unknown_words(llm_templates().front(), "{{a}}") ==
        std::vector<std::string>{"a"});
}

TEST_CASE("a template's sections are chosen by their titles") {
  const std::string text = "all\n## one\n1\n## two\n2\n";
  CHECK(chosen_sections(text, {"two"}) == "all\n\nFor two:\n2\n");
  CHECK(chosen_sections(text, {}) == "all");
  CHECK(chosen_sections("no section\n", {"one"}) == "no section\n");
}

TEST_CASE("each section of the idioms can be chosen") {
  FixtureBlobs blobs;
  for (const char* name : {"idioms_cpu", "idioms_gpu"}) {
    const auto text = template_text(name, {}, blobs);
    REQUIRE(text);
    for (const char* title : {"exponential", "reduction", "scan", "gather",
                              "product", "pool", "pointwise"}) {
      CAPTURE(title);
      CHECK(chosen_sections(*text, {title})
                .contains("\nFor " + std::string(title) + ":\n"));
    }
  }
}

/// A sum over rows, and what a run on a processor knows of it.
RefineRequest row_sums(FixtureBlobs& blobs) {
  GraphBuilder builder;
  builder.input("x0", dense({4096, 8192}))
      .call("t0", "sum.dim_IntList", {"x0"}, dense({4096}), {});
  builder.graph.outputs = {"t0"};
  RefineRequest request;
  request.work.subgraph = "sg_1";
  request.work.graph = blobs.put(graph_to_json(builder.graph));
  request.work.options.llm.edition = kLlmEdition;
  request.work.share = 0.43;
  Machine& machine = request.work.machine;
  machine.name = "a processor";
  machine.cores = 4;
  machine.instruction_sets = {"avx2", "fma"};
  machine.l3_bytes = 8 << 20;
  machine.versions = {{"g++", "12.2.0"}};
  machine.cpu_numbers = {{"copy_gbps", 20}, {"fp32_gflops", 100}};
  return request;
}

std::string text_of(const SeedPrompt& prompt, FixtureBlobs& blobs) {
  std::string text;
  for (const LlmPart& part : prompt.parts) text += *blobs.get(part.blob);
  return text;
}

TEST_CASE("a first prompt has the facts of device, task and checks") {
  FixtureBlobs blobs;
  const auto prompt = seed_prompt(row_sums(blobs), blobs);
  REQUIRE(prompt);
  const std::string text = text_of(*prompt, blobs);
  for (const char* words :
       {"a processor, 4 cores", "avx2, fma", "L3 8 MiB for all", "g++ 12.2.0",
        "Both may use 4 threads.", "torch.ops.aten.sum.dim_IntList(x0)",
        "The inputs have 134217728 bytes, the results 16384",
        "PyTorch sums float32 in float32", "20 GB/s for a copy",
        "about 43 % of the model's work",
        "Roofline: 6712 us, by 134 MB at the rate of a copy.\n",
        "- float32: at most max(8 * the error of eager PyTorch",
        "For reduction:", "altered: the first inputs", "# idea:"}) {
    CAPTURE(words);
    CHECK(text.contains(words));
  }
  CHECK_FALSE(text.contains("{{"));
  CHECK_FALSE(text.contains("For product:"));
}

TEST_CASE("measurements are no part of what an answer is kept by") {
  FixtureBlobs blobs;
  RefineRequest request = row_sums(blobs);
  request.seed.id = "llm-0";
  request.seed.origin = "llm";
  request.seed.target = "python";
  request.seed.source = blobs.put("# a kernel\n");
  request.round = 2;
  request.result = tried("llm-0", 2);
  request.result.seed = request.seed;
  request.best = request.result;
  const auto stored = [&](const SeedPrompt& prompt) {
    std::string text;
    for (const LlmPart& part : prompt.parts) {
      if (!part.varies) text += *blobs.get(part.blob);
    }
    return text;
  };
  const auto first = seed_prompt(request, blobs);
  REQUIRE(first);
  CHECK(first->method.contains("once"));
  CHECK(text_of(*first, blobs).contains("Target: 2.22x eager or more"));
  CHECK(text_of(*first, blobs).contains("It is the kernel below."));
  request.best.timing.over_eager.ratio = 0.8;
  const auto slow = seed_prompt(request, blobs);
  REQUIRE(slow);
  CHECK(
      text_of(*slow, blobs).contains("Target: 1.05x eager or more. A slower"));
  request.result.timing.candidate.median_us = 17;
  request.work.machine.cpu_numbers["copy_gbps"] = 31;
  const auto second = seed_prompt(request, blobs);
  REQUIRE(second);
  CHECK(stored(*first) == stored(*second));
  CHECK(text_of(*first, blobs) != text_of(*second, blobs));
}

TEST_CASE("the compiler's kernel is shown in the form of an answer") {
  FixtureBlobs blobs;
  RefineRequest request = row_sums(blobs);
  request.best = tried("compiler-0", 2);
  request.best.seed.origin = "compiler";
  request.best.seed.target = "cpu";
  request.best.seed.source = blobs.put(
      "namespace {\ninline int unused(int a) { return a; }\n}\n"
      "extern \"C\" void kernel_function(const float* x, float* y) {}\n");
  const auto prompt = seed_prompt(request, blobs);
  REQUIRE(prompt);
  const std::string text = text_of(*prompt, blobs);
  CHECK(text.contains("extern \"C\" void kernel_function"));
  CHECK_FALSE(text.contains("unused"));
  CHECK(text.contains(
      "def kernel_function(x0):\n    y0 = torch.empty_strided((4096,), (1,), "
      "dtype=torch.float32)\n    run(x0.data_ptr(), y0.data_ptr())\n    return "
      "y0\n"));
  CHECK(text.contains("function.argtypes = [ctypes.c_void_p] * 2"));
}

}  // namespace
}  // namespace weft
