#include "actors/extractor.hpp"

#include "tests/actors/run_bench.hpp"

using namespace weft;

namespace {

struct ExtractorBench : RunBench<Extractor> {
  CaptureRequest begin() {
    const auto sent = say(address::user, small_run(blobs));
    CHECK(one<Capacities>(sent).units.at("cpu") == 2);
    return one<CaptureRequest>(sent);
  }
};

}  // namespace

TEST_CASE("a captured graph is cut, written down and dispatched") {
  ExtractorBench extractor;
  const auto capture = extractor.begin();
  CHECK(capture.problem_name == "small.py");
  const std::string graph =
      extractor.blobs.put(graph_to_json(two_piece_graph()));
  const auto sent = extractor.say(address::capture,
                                  CaptureReply{capture.effect, {}, graph, 9});
  const auto files = one<WriteFilesRequest>(sent);
  CHECK(files.files.front().path == "subgraphs.json");
  CHECK(only<Dispatch>(sent).empty());  // not before the file is there
  const auto dispatch = one<Dispatch>(
      extractor.say(address::files, WriteFilesReply{files.effect, {}}));
  const auto plan = parse_plan(*extractor.blobs.get(dispatch.plan));
  REQUIRE(plan.has_value());
  CHECK(plan->subgraphs.size() == 2);
}

TEST_CASE("a problem that does not capture ends the run with its reason") {
  ExtractorBench extractor;
  const auto capture = extractor.begin();
  const auto finished = one<RunFinished>(extractor.say(
      address::capture,
      CaptureReply{capture.effect, {"wrong_input", "line 3: no"}, "", 9}));
  CHECK(finished.exit_code == 2);
  CHECK(finished.summary == "line 3: no");
}

TEST_CASE("a full disk ends the run as something missing") {
  ExtractorBench extractor;
  const auto capture = extractor.begin();
  const std::string graph =
      extractor.blobs.put(graph_to_json(two_piece_graph()));
  const auto files = one<WriteFilesRequest>(extractor.say(
      address::capture, CaptureReply{capture.effect, {}, graph, 9}));
  const auto finished = one<RunFinished>(extractor.say(
      address::files, WriteFilesReply{files.effect, {"missing", "no space"}}));
  CHECK(finished.exit_code == 3);
}

TEST_CASE("a capture that never answers ends the run") {
  ExtractorBench extractor;
  const auto capture = extractor.begin();
  const auto finished = one<RunFinished>(
      extractor.say(address::broker, LeaseExpired{capture.effect}));
  CHECK(finished.exit_code == 1);
}

TEST_CASE("a run's GPU is a resource of its own, and captures take it too") {
  ExtractorBench extractor;
  RunStart start = small_run(extractor.blobs);
  start.machine.gpus = {Gpu{}};
  const auto sent = extractor.give(address::user, start);
  const auto units = one<Capacities>(sent).units;
  CHECK(units.at("gpu") == 1);
  CHECK(units.at("cpu") == 2);
  CHECK(one<LeaseRequest>(sent).resource == "gpu");
}

TEST_CASE("on a GPU what only timing can tell is cut in both ways") {
  for (const bool has_gpu : {true, false}) {
    ExtractorBench extractor;
    RunStart start = small_run(extractor.blobs);
    start.options.target = "triton";
    if (has_gpu) start.machine.gpus = {Gpu{}};
    const auto capture =
        one<CaptureRequest>(extractor.say(address::user, start));
    const std::string graph =
        extractor.blobs.put(graph_to_json(two_piece_graph()));
    const auto files = one<WriteFilesRequest>(extractor.say(
        address::capture, CaptureReply{capture.effect, {}, graph, 9}));
    const auto dispatch = one<Dispatch>(
        extractor.say(address::files, WriteFilesReply{files.effect, {}}));
    const auto plan = parse_plan(*extractor.blobs.get(dispatch.plan));
    REQUIRE(plan.has_value());
    CHECK(plan->others.size() == (has_gpu ? 1 : 0));
    CHECK(plan->subgraphs.size() == 1);
  }
}
