#include "actors/extractor.hpp"

#include "actors/best_known.hpp"
#include "compiler/inductor_cut.hpp"
#include "tests/actors/run_fixture.hpp"

using namespace weft;

namespace {

struct ExtractorFixture : RunFixture<Extractor> {
  CaptureRequest begin() {
    const auto sent = say(address::user, small_run(blobs));
    CHECK(single<Capacities>(sent).units.at("cpu") == 2);
    return single<CaptureRequest>(sent);
  }
};

}  // namespace

TEST_CASE("a captured graph is cut, written down and dispatched") {
  ExtractorFixture extractor;
  const auto capture = extractor.begin();
  CHECK(capture.problem_name == "small.py");
  const std::string graph =
      extractor.blobs.put(graph_to_json(two_piece_graph()));
  const auto sent = extractor.say(address::capture,
                                  CaptureReply{capture.effect, {}, graph, 9});
  const auto files = single<WriteFilesRequest>(sent);
  CHECK(files.files.front().path == "subgraphs.json");
  CHECK(only<Dispatch>(sent).empty());  // not before the file is there
  const auto dispatch = single<Dispatch>(
      extractor.say(address::files, WriteFilesReply{files.effect, {}}));
  const auto plan = parse_plan(*extractor.blobs.get(dispatch.plan));
  REQUIRE(plan.has_value());
  CHECK(plan->subgraphs.size() == 2);
}

TEST_CASE("Inductor's fusion of the whole is a cut where Inductor is asked") {
  for (const bool is_asked : {true, false}) {
    for (const bool is_old : {true, false}) {
      ExtractorFixture extractor;
      RunStart start = small_run(extractor.blobs);
      if (!is_old) start.vocabulary = kBestKnownVocabulary;
      start.options.seeds = {"compiler"};
      if (is_asked) start.options.seeds.emplace_back("inductor");
      const Plan plan = plan_of(extractor, start, two_piece_graph());
      CHECK(plan.placements.size() == 2);
      REQUIRE(plan.others.size() == (is_asked && !is_old ? 1 : 0));
      if (plan.others.empty()) continue;
      CHECK(plan.label == kOurFusion);
      CHECK(plan.others.front().label == kInductorsFusion);
      CHECK(plan.others.front().placements.size() == 1);
    }
  }
}

TEST_CASE("one piece for weft's kernels and for Inductor is one cut") {
  ExtractorFixture extractor;
  RunStart start = small_run(extractor.blobs);
  start.vocabulary = kBestKnownVocabulary;
  start.options.seeds = {"compiler", "inductor"};
  GraphBuilder builder;
  builder.input("x", dense({8, 3}))
      .call("a", "relu", {"x"}, dense({8, 3}))
      .call("b", "exp", {"a"}, dense({8, 3}))
      .outputs({"b"});
  const Plan plan = plan_of(extractor, start, builder.graph);
  CHECK(plan.others.empty());
  CHECK(plan.label.empty());
}

TEST_CASE("a problem that does not capture ends the run with its reason") {
  ExtractorFixture extractor;
  const auto capture = extractor.begin();
  const auto finished = single<RunFinished>(extractor.say(
      address::capture,
      CaptureReply{capture.effect, {"wrong_input", "line 3: no"}, "", 9}));
  CHECK(finished.exit_code == 2);
  CHECK(finished.summary == "line 3: no");
}

namespace {

/// relu of a batch.
std::string graph_at_batch(ExtractorFixture& extractor, std::int64_t batch) {
  GraphBuilder builder;
  builder.input("x", dense({batch, 3}))
      .call("a", "relu", {"x"}, dense({batch, 3}))
      .call("b", "exp", {"a"}, dense({batch, 3}))
      .outputs({"b"});
  return extractor.blobs.put(graph_to_json(builder.graph));
}

RunStart any_batch(ExtractorFixture& extractor) {
  RunStart start = small_run(extractor.blobs);
  start.options.dynamic_batch = true;
  return start;
}

/// What the run says that ends with its first capture.
RunFinished ended_by_capture(ExtractorFixture& extractor,
                             const RunStart& start) {
  const auto capture =
      single<CaptureRequest>(extractor.say(address::user, start));
  return single<RunFinished>(extractor.say(
      address::capture,
      CaptureReply{capture.effect, {}, graph_at_batch(extractor, 8), 9}));
}

/// The capture at other batches.
CaptureRequest other_captures(ExtractorFixture& extractor) {
  const auto capture = single<CaptureRequest>(
      extractor.say(address::user, any_batch(extractor)));
  return single<CaptureRequest>(extractor.say(
      address::capture,
      CaptureReply{capture.effect, {}, graph_at_batch(extractor, 8), 9}));
}

/// The batch that a problem is for.
std::int64_t batch_in(const std::string& problem) {
  const auto at = problem.find("WEFT_SIZES = [");
  REQUIRE(at != std::string::npos);
  return std::stoll(problem.substr(at + 14));
}

}  // namespace

TEST_CASE("a run for any batch captures others, and its pieces grow") {
  ExtractorFixture extractor;
  const auto capture = other_captures(extractor);
  REQUIRE(capture.others.size() == 3);
  const auto graph_of = [&](const std::string& problem) {
    return graph_at_batch(extractor, batch_in(*extractor.blobs.get(problem)));
  };
  CaptureReply reply{capture.effect, {}, graph_of(capture.problem), 9};
  for (const std::string& other : capture.others) {
    reply.others.push_back(graph_of(other));
  }
  const auto files =
      single<WriteFilesRequest>(extractor.say(address::capture, reply));
  const auto dispatch = single<Dispatch>(
      extractor.say(address::files, WriteFilesReply{files.effect, {}}));
  const auto plan = parse_plan(*extractor.blobs.get(dispatch.plan));
  REQUIRE(plan.has_value());
  CHECK(plan->subgraphs.front().graph.symbolic_shapes.sizes == Sizes{8});
  CHECK(plan->subgraphs.front().graph.symbolic_shapes.is_symbolic());
}

TEST_CASE("any size can be of another dimension, or of another input") {
  for (const int input : {-1, 1}) {
    ExtractorFixture extractor;
    RunStart start = any_batch(extractor);
    start.options.dynamic_input = input;
    start.options.dynamic_dim = 1;
    const auto capture =
        single<CaptureRequest>(extractor.say(address::user, start));
    GraphBuilder builder;
    builder.input("x", dense({5, 8}))
        .input("y", dense({5, 12}))
        .call("a", "relu", {"x"}, dense({5, 8}))
        .call("b", "relu", {"y"}, dense({5, 12}))
        .outputs({"a", "b"});
    const auto sent = extractor.say(
        address::capture,
        CaptureReply{capture.effect,
                     {},
                     extractor.blobs.put(graph_to_json(builder.graph)),
                     9});
    CHECK(single<Progress>(sent).text.ends_with(input < 0 ? " 8" : " 12"));
    const std::string at = input < 0 ? "\nWEFT_PLACES = [(-1, 1)]\n"
                                     : "\nWEFT_PLACES = [(1, 1)]\n";
    const auto request = single<CaptureRequest>(sent);
    CHECK(extractor.blobs.get(request.problem)->contains(at));
    for (const std::string& other : request.others) {
      CHECK(extractor.blobs.get(other)->contains(at));
    }
  }
}

TEST_CASE("two dimensions are captured at pairs of primes") {
  ExtractorFixture extractor;
  RunStart start = any_batch(extractor);
  start.options.dynamic_more = {{-1, 1}};
  const auto capture =
      single<CaptureRequest>(extractor.say(address::user, start));
  GraphBuilder builder;
  builder.input("x", dense({5, 8, 3}))
      .call("a", "relu", {"x"}, dense({5, 8, 3}))
      .outputs({"a"});
  const auto sent = extractor.say(
      address::capture,
      CaptureReply{capture.effect,
                   {},
                   extractor.blobs.put(graph_to_json(builder.graph)),
                   9});
  CHECK(single<Progress>(sent).text.ends_with(" 5 and 8"));
  const auto request = single<CaptureRequest>(sent);
  CHECK(request.others.size() == 6);
  const std::string text = *extractor.blobs.get(request.problem);
  CHECK(text.contains("\nWEFT_SIZES = [37, 41]\n"));
  CHECK(text.contains("\nWEFT_PLACES = [(-1, 0), (-1, 1)]\n"));
}

TEST_CASE("one dimension that is named in two ways is said") {
  ExtractorFixture extractor;
  RunStart start = any_batch(extractor);
  start.options.dynamic_more = {{0, 0}};
  const auto finished = ended_by_capture(extractor, start);
  CHECK(finished.exit_code == 2);
  CHECK(finished.summary.starts_with("--dynamic-batch --dynamic-dim 0:0: "));
  CHECK(finished.summary.ends_with("named twice"));
}

TEST_CASE("a dimension that no input has is said with the flag") {
  ExtractorFixture extractor;
  RunStart start = any_batch(extractor);
  start.options.dynamic_input = 2;
  start.options.dynamic_dim = 1;
  const auto finished = ended_by_capture(extractor, start);
  CHECK(finished.exit_code == 2);
  CHECK(finished.summary.starts_with("--dynamic-dim 2:1: the input 2 of "));
}

TEST_CASE(
    "a capture that fails at another batch ends the run, and says where") {
  for (const std::size_t there : {0, 1, 2}) {
    ExtractorFixture extractor;
    const auto capture = other_captures(extractor);
    CaptureReply reply{capture.effect, {"wrong_input", "a branch"}, "", 9};
    const std::string graph = graph_at_batch(extractor, 37);
    if (there > 0) reply.graph = graph;
    if (there > 1) reply.others = {graph};
    const auto finished =
        single<RunFinished>(extractor.say(address::capture, reply));
    CHECK(finished.exit_code == 2);
    const std::string failed =
        there == 0 ? capture.problem : capture.others[there - 1];
    CHECK(finished.summary ==
          "at the size " +
              std::to_string(batch_in(*extractor.blobs.get(failed))) +
              ": a branch");
  }
}

TEST_CASE("a capture that gives too few graphs ends the run") {
  ExtractorFixture extractor;
  const auto capture = other_captures(extractor);
  const auto finished = single<RunFinished>(extractor.say(
      address::capture,
      CaptureReply{capture.effect, {}, graph_at_batch(extractor, 37), 9}));
  CHECK(finished.exit_code == 1);
  CHECK(finished.summary.ends_with(": the capture gave no graph"));
}

TEST_CASE(
    "what has no code for any batch is said before anything is captured") {
  for (const bool is_target : {true, false}) {
    ExtractorFixture extractor;
    RunStart start = any_batch(extractor);
    if (is_target) start.options.target = "cuda";
    if (!is_target) start.options.seeds = {"compiler", "llm"};
    const auto finished =
        single<RunFinished>(extractor.say(address::user, std::move(start)));
    CHECK(finished.exit_code == 2);
    CHECK(finished.summary.starts_with("--dynamic-batch "));
  }
}

TEST_CASE("a full disk ends the run as something missing") {
  ExtractorFixture extractor;
  const auto capture = extractor.begin();
  const std::string graph =
      extractor.blobs.put(graph_to_json(two_piece_graph()));
  const auto files = single<WriteFilesRequest>(extractor.say(
      address::capture, CaptureReply{capture.effect, {}, graph, 9}));
  const auto finished = single<RunFinished>(extractor.say(
      address::files, WriteFilesReply{files.effect, {"missing", "no space"}}));
  CHECK(finished.exit_code == 3);
}

TEST_CASE("a capture that never answers ends the run") {
  ExtractorFixture extractor;
  const auto capture = extractor.begin();
  const auto finished = single<RunFinished>(
      extractor.say(address::broker, LeaseExpired{capture.effect}));
  CHECK(finished.exit_code == 1);
}

TEST_CASE("a run's GPU is a resource of its own, and captures take it too") {
  ExtractorFixture extractor;
  RunStart start = small_run(extractor.blobs);
  start.machine.gpus = {Gpu{}};
  const auto sent = extractor.give(address::user, start);
  const auto units = single<Capacities>(sent).units;
  CHECK(units.at("gpu") == 1);
  CHECK(units.at("cpu") == 2);
  CHECK(single<LeaseRequest>(sent).resource == "gpu");
}

TEST_CASE("on a GPU what only timing can tell is cut in both ways") {
  for (const bool has_gpu : {true, false}) {
    ExtractorFixture extractor;
    RunStart start = small_run(extractor.blobs);
    start.options.target = "triton";
    if (has_gpu) start.machine.gpus = {Gpu{}};
    const Plan plan = plan_of(extractor, start, two_piece_graph());
    CHECK(plan.others.size() == (has_gpu ? 1 : 0));
    CHECK(plan.subgraphs.size() == 1);
  }
}
