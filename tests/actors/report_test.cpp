#include "actors/report.hpp"

#include <algorithm>
#include <sstream>

#include "actors/llm/report.hpp"
#include "actors/outcome.hpp"
#include "compiler/targets.hpp"
#include "messages/protection.hpp"
#include "tests/actors/run_fixture.hpp"

using namespace weft;

namespace {

Timing timed(double ratio, double low, double high) {
  Timing timing;
  timing.candidate = {1000, 900, 1100, 20};
  timing.eager = {1000 * ratio, 900 * ratio, 1100 * ratio, 20};
  timing.over_eager = {ratio, low, high};
  timing.bytes_floor = 5'000'000;
  return timing;
}

struct ReportFixture {
  Plan plan = partition(two_piece_graph(), *find_target("cpu"));
  Report report;

  ReportFixture() {
    report.run.problem_name = "small, \"odd\".py";
    report.verdict = {true, "correct", "",        6,         1e-7, 2e-7,
                      1e-5, {},        "float32", "float32", {},   {}};
    report.timing = timed(2, 1.9, 2.1);
    report.machine.copy_gbps = 10;
    for (const Subgraph& subgraph : plan.subgraphs) {
      SubgraphDone done;
      done.subgraph = subgraph.id;
      done.outcome = "won";
      done.seeds = done.correct = 2;
      done.best.timing = timed(1.01, 0.9, 1.2);
      report.subgraphs.push_back(done);
      report.used.insert(subgraph.id);
    }
  }
};

/// Fields of a line, quotes honoured.
std::size_t fields(const std::string& line) {
  bool quoted = false;
  std::size_t count = 1;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("every row of results.csv has the header's fields") {
  const ReportFixture result;
  std::istringstream csv(results_csv(result.report, result.plan));
  std::string header;
  std::getline(csv, header);
  int rows = 0;
  for (std::string line; std::getline(csv, line); ++rows) {
    CHECK_MESSAGE(fields(line) == fields(header), line);
  }
  CHECK(rows == 4);  // two subgraphs, the model, one extern
}

TEST_CASE("a spreadsheet computes no text of results.csv") {
  ReportFixture composed;
  composed.report.run.problem_name = "=HYPERLINK(\"x\").py";
  for (SubgraphDone& done : composed.report.subgraphs) {
    done.best.seed.variant = "@SUM(1)";
    done.best.seed.origin = "+1";
    done.outcome = "-1";
  }
  const std::string csv = results_csv(composed.report, composed.plan);
  CHECK(csv.contains(",'@SUM(1),"));
  CHECK(csv.contains(",'+1,"));
  CHECK(csv.contains(",'-1,"));
  CHECK(csv.contains("\"'=HYPERLINK(\"\"x\"\").py\""));
  CHECK_FALSE(csv.contains(",=HYPER"));
}

TEST_CASE("who ran without a sandbox is told so in one line") {
  ReportFixture composed;
  CHECK_FALSE(summary_line(composed.report).contains("sandbox"));
  composed.report.run.machine.unprotected = {std::string(kNoSandbox)};
  CHECK(summary_line(composed.report).ends_with("; without a sandbox"));
}

TEST_CASE("no text of somebody else's is mark-up in the report") {
  ReportFixture composed;
  composed.report.run.options.choices["<script>x</script>"] = 1;
  composed.report.run.machine.unprotected = {"<img>"};
  composed.report.run.weft_version = "<b>";
  for (SubgraphDone& done : composed.report.subgraphs) done.outcome = "a|<i>";
  const std::string text = report_markdown(composed.report, composed.plan);
  for (const char* mark : {" <script>", " <img>", " <b>", "|<i>"}) {
    CHECK_FALSE(text.contains(mark));
  }
}

TEST_CASE("the report names kernels, externs and the bandwidth's share") {
  const ReportFixture result;
  const std::string text = report_markdown(result.report, result.plan);
  CHECK(text.find("aten.mm.default × 1") != std::string::npos);
  CHECK(text.find(result.plan.subgraphs[0].id) != std::string::npos);
  CHECK(text.find("50 %") != std::string::npos);  // 5 GB/s of 10
}

TEST_CASE("a ratio whose interval holds 1 is no difference") {
  ReportFixture result;
  const std::string text = report_markdown(result.report, result.plan);
  CHECK(text.find("1.01× (0.90–1.20), no difference") != std::string::npos);
  CHECK(summary_line(result.report).find("no difference") == std::string::npos);
  result.report.timing.over_compile = {1.1, 0.9, 1.3};
  CHECK(summary_line(result.report)
            .contains("1.10× (0.90–1.30) over torch.compile, no difference"));
}

TEST_CASE("of the framework's own code there is no difference to eager") {
  ReportFixture result;
  result.report.timing.over_eager = Speedup{0.93, 0.91, 0.95};
  const auto answer = [&result] {
    return report_markdown(result.report, result.plan)
        .contains("0.93×, the same code: no difference");
  };
  CHECK(!answer());
  result.report.used.clear();
  CHECK(answer());
}

TEST_CASE("calls in a row have a column where a module was timed so") {
  ReportFixture result;
  const auto answer = [&result](const char* text) {
    return report_markdown(result.report, result.plan).contains(text);
  };
  CHECK(answer("| | ms, median (p10–p90) | speedup of ModelNew |"));
  result.report.timing.back_to_back_calls = 5;
  result.report.timing.back_to_back_us = {{"candidate", 750}, {"eager", 1500}};
  CHECK(answer(
      "| 5 calls in a row, each | speedup of ModelNew |\n|---|---|---|---|"));
  CHECK(answer("| eager | 2.000 (1.800–2.200) | 1.500 | 2.00×"));
  CHECK(answer("| torch.compile | – | | "));
  CHECK(answer("Speedups are the lower ones of both ways."));
}

TEST_CASE("the clocks of all parties are told, and why they were lowered") {
  ReportFixture result;
  const auto answer = [&result](const char* text) {
    return report_markdown(result.report, result.plan).contains(text);
  };
  CHECK(!answer("Clocks"));
  result.report.timing.sm_mhz = {{"candidate", 1980}, {"eager", 1965}};
  CHECK(
      answer("Clocks after their calls: candidate 1980 MHz, eager 1965 MHz\n"));
  result.report.timing.throttled = {"power cap", "hardware thermal"};
  CHECK(answer("1965 MHz; lowered by: power cap, hardware thermal\n"));
}

TEST_CASE("kernels that were rejected are not told to be merely slow") {
  ReportFixture result;
  result.report.used.clear();
  CHECK(summary_line(result.report).find("faster") != std::string::npos);
  result.report.rejected = "element 3 is 2, not 1\nand others";
  CHECK(summary_line(result.report)
            .starts_with("verified, but generated kernels were refused "
                         "(element 3 is 2, not 1): "));
}

TEST_CASE("a long reason in the summary is whole sentences") {
  ReportFixture result;
  result.report.used.clear();
  const std::string long_words(200, 'x');
  const auto has = [&](const std::string& reason, const std::string& words) {
    result.report.rejected = reason;
    return summary_line(result.report).contains("(" + words + ")");
  };
  CHECK(has("It is 2. It is 3. " + long_words, "It is 2. It is 3. …"));
  CHECK(has(long_words + " is wrong. And more.", long_words + " is wrong. …"));
  CHECK(has(long_words, long_words));
}

TEST_CASE("no kernel is called slower that was never timed") {
  ReportFixture result;
  const auto answer = [&result](const char* text) {
    return summary_line(result.report).contains(text);
  };
  result.report.used.clear();
  CHECK(answer("no generated kernel is faster"));
  for (auto& done : result.report.subgraphs) done.correct = 0;
  CHECK(answer("no generated kernel was correct"));
  for (auto& done : result.report.subgraphs) done.outcome = "failed";
  CHECK(answer("no kernel could be judged"));
  for (auto& done : result.report.subgraphs) done.seeds = 0;
  CHECK(answer("no kernel was tried"));
  result.report.subgraphs.front().reason =
      "not begun: the search's part of the budget of 3 s is over";
  CHECK(answer("there was no time to find a kernel"));
  result.report.subgraphs.clear();
  CHECK(answer("all operators are calls of PyTorch's libraries"));
}

TEST_CASE("a kernel wins only beyond noise") {
  CHECK(faster_than_eager(timed(1.2, 1.1, 1.3)));
  CHECK(!faster_than_eager(timed(1.2, 0.99, 1.5)));
  CHECK(!faster_than_eager(timed(1.02, 1.01, 1.03)));
  CHECK(slower_than_eager(timed(0.8, 0.7, 0.9)));
  CHECK(!slower_than_eager(timed(0.8, 0.7, 1.1)));
  CHECK(slower_than_eager(timed(0.97, 0.96, 0.98)));
  CHECK(!slower_than_eager(timed(0.99, 0.985, 0.995)));
}

TEST_CASE("a failure's code gives the exit code") {
  CHECK(exit_code_of(Failure{"wrong_input", ""}) == 2);
  CHECK(exit_code_of(Failure{"missing", ""}) == 3);
  CHECK(exit_code_of(Failure{"failed", ""}) == 1);
}

TEST_CASE("the report names the GPU, its bandwidth and the precision") {
  ReportFixture result;
  result.report.run.options.precision = "strict";
  result.report.run.machine.gpus = {Gpu{"NVIDIA H200", "sm_90", 132, 0, 0, 0}};
  result.report.machine.gpu["copy_gbps"] = 4000;
  const std::string text = report_markdown(result.report, result.plan);
  CHECK(text.contains("NVIDIA H200 (sm_90, 132 multiprocessors)"));
  CHECK(text.contains("a copy moves 4000.0 GB/s"));
  CHECK(text.contains("Precision: strict"));
  CHECK(text.contains("Mode: train, as its constructor leaves it"));
}

TEST_CASE("the report says of a kernel that it is the library's") {
  ReportFixture result;
  result.report.subgraphs[0].best.seed.variant = "vec16";
  result.report.subgraphs[0].best.seed.origin = "library";
  result.report.subgraphs[1].best.seed.origin = "compiler";
  const std::string text = report_markdown(result.report, result.plan);
  CHECK(text.contains("vec16 (library)"));
  CHECK_FALSE(text.contains("(compiler)"));
}

TEST_CASE("the report says by which rules the module is right") {
  ReportFixture result;
  KernelBenchVerdict& kernelbench_module = result.report.verdict.kernelbench;
  CHECK(!summary_line(result.report).contains("within"));
  kernelbench_module = {"within", "", 5, 1e-6, 1e-4, "within", ""};
  CHECK(summary_line(result.report)
            .ends_with("; within KernelBench's tolerance"));
  kernelbench_module = {"outside", "draw 2: 9 of 10", 1, 0.5,
                        1e-4,      "within",          ""};
  CHECK(summary_line(result.report)
            .ends_with("; outside KernelBench's tolerance"));
  const std::string text = report_markdown(result.report, result.plan);
  CHECK(
      text.contains("(1 draw, 1e-04): outside: draw 2: 9 of 10; "
                    "torch.compile's module: within"));
  CHECK(text.contains("float32 (PyTorch's float32)"));
  kernelbench_module.outcome = "failed";
  CHECK(summary_line(result.report).contains("not checked"));
}

TEST_CASE("a module that is near to eager is told of beside the other") {
  ReportFixture result;
  result.report.verdict.kernelbench.outcome = "outside";
  const std::string id = result.plan.subgraphs[0].id;
  result.report.kernelbench_module.composed = true;
  result.report.kernelbench_module.used = {id};
  result.report.kernelbench_module.externs = {{"aten.mm.default", 2},
                                              {"aten.tanh.default", 1}};
  result.report.kernelbench_module.timing = timed(1.5, 1.4, 1.6);
  CHECK(
      summary_line(result.report)
          .ends_with("another module is within: 1.50× (1.40–1.60) over eager"));
  const std::string text = report_markdown(result.report, result.plan);
  CHECK(text.contains("Generated kernels: " + id +
                      ". PyTorch's operators: aten.mm.default × 2, "
                      "aten.tanh.default × 1."));
  const std::string csv = results_csv(result.report, result.plan);
  CHECK(csv.contains("\nkernelbench,"));
}

TEST_CASE("what ended a language model's calls is told at a run's end") {
  Report report;
  report.subgraphs.resize(2);
  LlmSummary& summary = report.subgraphs[1].llm;
  summary.note = "all 4 rounds";
  CHECK(llm_trouble(report).empty());
  summary.note = "no further call: mini answers 401";
  CHECK(llm_trouble(report) ==
        "the language model was given up: mini answers 401");
  summary.out_of_budget = true;
  CHECK(llm_trouble(report) == "the budget for language models ended first");
}
