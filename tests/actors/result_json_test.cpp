#include "actors/result_json.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "compiler/targets.hpp"
#include "tests/actors/run_fixture.hpp"

using namespace weft;
using nlohmann::json;

namespace {

struct ReportFixture {
  Plan plan = partition(two_piece_graph(), *find_target("cpu"));
  Report report;

  ReportFixture() {
    report.run.problem_name = "small.py";
    report.verdict = {true,      "correct", "",   6,
                      1.5e-7,    2e-7,      1e-5, {{"zeros", true}},
                      "float32", "float32", {},   {}};
    report.timing.candidate = {1000, 900, 1100, 20, 1010, 50, 890, 1300};
    report.timing.eager = {2000, 1900, 2100, 20, 2010, 60, 1890, 2300};
    report.timing.over_eager = {2, 1.9, 2.1};
    for (const Subgraph& subgraph : plan.subgraphs) {
      SubgraphDone done;
      done.subgraph = subgraph.id;
      done.outcome = "won";
      report.subgraphs.push_back(done);
    }
    report.used.insert(plan.subgraphs[0].id);
  }

  json fields() const { return json::parse(result_json(report, plan)); }
};

}  // namespace

TEST_CASE("result.json has times, mean and spread, and null for the rest") {
  const json fields = ReportFixture().fields();
  CHECK(fields["timing"]["candidate"]["mean_us"] == 1010);
  CHECK(fields["timing"]["candidate"]["max_us"] == 1300);
  CHECK(fields["timing"]["over_eager"]["low"] == 1.9);
  CHECK(fields["timing"]["compile"].is_null());
  CHECK(fields["timing"]["over_compile_autotune"].is_null());
  CHECK(fields["timing"]["back_to_back"].is_null());
}

TEST_CASE("result.json has the times of calls in a row") {
  ReportFixture result;
  result.report.timing.back_to_back_calls = 7;
  result.report.timing.back_to_back_us = {{"eager", 1500}};
  CHECK(result.fields()["timing"]["back_to_back"] ==
        json({{"calls", 7}, {"eager_us", 1500}}));
}

TEST_CASE("result.json says why there is no kernel") {
  ReportFixture result;
  CHECK(result.fields()["why_no_kernel"] == "");
  result.report.used.clear();
  CHECK(result.fields()["why_no_kernel"] == "no kernel was tried");
  result.report.rejected = "off by 1";
  CHECK(result.fields()["why_no_kernel"] ==
        "generated kernels were refused (off by 1)");
  result.report.stand_ins = 1;  // which are no kernels, and faster
  CHECK(result.fields()["why_no_kernel"] == "");
}

TEST_CASE("result.json says which kernels are ours and which are extern") {
  const json fields = ReportFixture().fields();
  CHECK(fields["subgraphs"][0]["ours"] == true);
  CHECK(fields["subgraphs"][1]["ours"] == false);
  CHECK(fields["externs"]["aten.mm.default"] == 1);
}

TEST_CASE("result.json has what the floors are worked out from") {
  ReportFixture result;
  result.report.timing.bytes_floor = 49'152;
  result.report.timing.sm_mhz = {{"candidate", 1980}, {"eager", 1965}};
  result.report.timing.throttled = {"power cap"};
  result.report.machine.gpu["copy_gbps"] = 4000;
  const json fields = result.fields();
  CHECK(fields["matrix_operations"] == 2 * 64 * 64 * 64);
  CHECK(fields["timing"]["bytes_floor"] == 49'152);
  CHECK(fields["timing"]["sm_mhz"]["eager"] == 1965);
  CHECK(fields["timing"]["throttled"][0] == "power cap");
  CHECK(fields["machine"]["gpu_measured"]["copy_gbps"] == 4000);
  CHECK(fields["verdict"]["controls"]["zeros"] == true);
}

TEST_CASE("result.json can be written of texts that are no UTF-8") {
  ReportFixture result;
  result.report.notes.push_back("bad \xff byte");
  CHECK(result.fields()["notes"].size() == 1);
}
