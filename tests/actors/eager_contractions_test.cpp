// The cut whose products are the framework's own: who is asked for it, and when
// its module is the one near to eager.
#include "actors/dispatcher.hpp"
#include "actors/extractor.hpp"
#include "tests/actors/composer_fixture.hpp"

using namespace weft;

namespace {

/// relu(x) @ x, then tanh: one piece, and with the product left out two.
Plan plan_with_eager_contractions() {
  const Target& target = *find_target("triton");
  Plan plan = partition(two_piece_graph(), target);
  add_eager_contractions_partition(two_piece_graph(), target, {}, plan);
  return plan;
}

struct EagerContractionsFixture : EagerContractionsCase {
  explicit EagerContractionsFixture(const std::string& accept = "both",
                                    const std::string& target = "cpu",
                                    std::int64_t ends_us = 0)
      : EagerContractionsFixture(plan_with_eager_contractions(), accept, target,
                                 ends_us) {}

  EagerContractionsFixture(const Plan& of, const std::string& accept,
                           const std::string& target, std::int64_t ends_us) {
    plan = of;
    Compose compose{blobs.put(plan_to_json(plan)), small_run(blobs), {}};
    compose.run.options.accept = accept;
    compose.run.options.target = target;
    compose.ends_us = ends_us;
    for (const Subgraph& subgraph : all_subgraphs(plan)) {
      compose.results.push_back(done(subgraph.id, "won"));
    }
    sent = say(address::dispatcher, compose);
  }
  /// The module of the plan's cut is far, and only Model's forward is not.
  void forward_passes_kernelbench() {
    checked("outside");
    timed(2.0);
    checked("within");
    timed(1.0);
  }
};

}  // namespace

TEST_CASE(
    "the eager-contractions partition leaves the product to the framework") {
  const Plan plan = plan_with_eager_contractions();
  CHECK(extern_counts(plan).empty());
  REQUIRE(plan.eager_contractions_partition.size() == 1);
  const Plan& near = plan.eager_contractions_partition.front();
  CHECK(near.subgraphs.size() == 2);
  CHECK(extern_counts(near) ==
        std::map<std::string, int>{{"aten.mm.default", 1}});
  CHECK(all_subgraphs(plan).size() == 1);  // searched when it is asked for
}

TEST_CASE("a plan travels with its eager-contractions partition") {
  Plan plan = plan_with_eager_contractions();
  const auto back = parse_plan(plan_to_json(plan));
  REQUIRE(back.has_value());
  CHECK(plan_to_json(*back) == plan_to_json(plan));
  plan.eager_contractions_partition.push_back(
      plan.eager_contractions_partition.front());
  CHECK_FALSE(parse_plan(plan_to_json(plan)).has_value());
}

TEST_CASE("of products in TF32 and in float32 the first are the framework's") {
  const TensorType square = dense({64, 64});
  GraphBuilder builder;
  builder.input("x", square)
      .call("a", "mm", {"x", "x"}, square)
      .call("b", "relu", {"a"}, square)
      .call("c", "mm", {"b", "x"}, square)
      .call("d", "tanh", {"c"}, square)
      .outputs({"d"});
  const Target& target = *find_target("triton");
  for (const bool has_tf32 : {true, false}) {
    for (Node& node : builder.graph.nodes) {
      if (node.name == "c") node.tf32 = has_tf32;
    }
    Plan plan = partition(builder.graph, target);
    add_eager_contractions_partition(builder.graph, target, {}, plan);
    REQUIRE(plan.eager_contractions_partition.size() == 1);
    CHECK(extern_counts(plan.eager_contractions_partition.front())
              .at("aten.mm.default") == (has_tf32 ? 1 : 2));
  }
}

TEST_CASE(
    "there is no eager-contractions partition where it is the only one, or not "
    "allowed") {
  const Graph graph = two_piece_graph();
  Plan plan = partition(graph, *find_target("cpu"));
  add_eager_contractions_partition(graph, *find_target("cpu"), {}, plan);
  CHECK(plan.eager_contractions_partition.empty());
  const CutOptions no_extern{.no_extern = true};
  plan = partition(graph, *find_target("triton"), no_extern);
  add_eager_contractions_partition(graph, *find_target("triton"), no_extern,
                                   plan);
  CHECK(plan.eager_contractions_partition.empty());
}

TEST_CASE(
    "a plan has an eager-contractions partition, of old runs where near "
    "modules are wanted") {
  for (const bool is_old : {false, true}) {
    for (const char* accept : {"weft", "kernelbench", "both"}) {
      RunFixture<Extractor> extractor;
      RunStart start = small_run(extractor.blobs);
      start.seeks_products = !is_old;
      start.options.target = "triton";
      start.options.accept = accept;
      const Plan plan = plan_of(extractor, start, two_piece_graph());
      CHECK(plan.eager_contractions_partition.empty() ==
            (is_old && accept == std::string("weft")));
    }
  }
}

TEST_CASE("kernels around the framework's own product make the near module") {
  EagerContractionsFixture composer;
  composer.checked("outside");
  composer.timed(2.0);
  CHECK_FALSE(composer.asks());
  composer.checked("within");  // Model's forward
  CHECK_FALSE(composer.asks());
  composer.timed(1.0);
  CHECK(composer.asks());
  CHECK(only<ProbeRequest>(composer.sent).empty());
  composer.searched();
  CHECK(composer.count(composer.composed()) == 2);
  CHECK(single<CheckRequest>(composer.sent).rules ==
        std::vector<std::string>{"weft", "kernelbench"});
  composer.checked("within");
  composer.timed(1.4);
  CHECK(composer.count(composer.kernelbench_module()) == 2);
  const std::string report = composer.file("report.md");
  CHECK(report.contains("PyTorch's operators: aten.mm.default × 1."));
  CHECK(report.contains("another module is within: 1.40×"));
  CHECK(report.contains(
      "| relu | 0 | won | generated, within KernelBench's tolerance |"));
  const std::string whole = composer.file("composed/model_new.py");
  CHECK(whole.contains("// kernel of " + composer.plan.subgraphs[0].id));
}

TEST_CASE("the other near module stays where it is faster") {
  EagerContractionsFixture composer;
  composer.forward_passes_kernelbench();
  composer.searched();
  composer.checked("within");
  composer.timed(0.99);
  CHECK(composer.kernelbench_module().contains("class ModelNew"));
  CHECK(composer.count(composer.kernelbench_module()) == 0);
  CHECK(composer.file("report.md").contains("all, in Model's own forward"));
}

TEST_CASE(
    "an eager-contractions partition's module that is far loses kernels by "
    "halves") {
  EagerContractionsFixture composer;
  composer.forward_passes_kernelbench();
  composer.searched();
  composer.checked("outside");
  CHECK(single<CheckRequest>(composer.sent).rules ==
        std::vector<std::string>{"kernelbench"});
  CHECK(composer.count(composer.composed()) == 1);
  composer.checked("within");
  composer.checked("within");  // by both rules
  composer.timed(1.2);
  CHECK(composer.count(composer.kernelbench_module()) == 1);
}

TEST_CASE(
    "an eager-contractions partition none of whose kernels is near leaves the "
    "other module") {
  EagerContractionsFixture composer;
  composer.forward_passes_kernelbench();
  composer.searched();
  composer.checked("outside");
  composer.checked("outside");
  CHECK(only<CheckRequest>(composer.sent).empty());
  CHECK(composer.count(composer.kernelbench_module()) == 0);
  CHECK(composer.kernelbench_module().contains("class ModelNew"));
}

TEST_CASE(
    "an eager-contractions partition that is wrong, lost or lacks kernels "
    "leaves it, too") {
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    EagerContractionsFixture composer;
    composer.forward_passes_kernelbench();
    composer.searched(how == 0 ? 0 : 2);
    if (how == 1) composer.checked("within", false);
    for (int tries = 0; how == 2 && tries < 2; ++tries) {
      CheckReply reply;
      reply.effect = single<CheckRequest>(composer.sent).effect;
      reply.failure = {"failed", "out of memory"};
      composer.sent = composer.say(address::verify, reply);
    }
    CHECK(composer.count(composer.kernelbench_module()) == 0);
    CHECK(composer.kernelbench_module().contains("class ModelNew"));
  }
}

TEST_CASE(
    "a kernel without products that leaves is not worth an eager-contractions "
    "partition") {
  Plan plan = partition(two_piece_graph(), *find_target("cpu"));
  plan.eager_contractions_partition = {plan};
  EagerContractionsFixture composer(plan, "both", "cpu", 0);
  composer.checked("outside");
  composer.timed(2.0);
  composer.checked("within");  // one of two kernels stays
  composer.checked("within");
  composer.timed(1.0);
  CHECK_FALSE(composer.asks());
}

TEST_CASE("where all kernels left, the library's calls may be why") {
  Plan plan = partition(two_piece_graph(), *find_target("cpu"));
  plan.eager_contractions_partition = {plan};
  EagerContractionsFixture composer(plan, "both", "cpu", 0);
  composer.checked("outside");
  composer.timed(2.0);
  composer.checked("outside");
  composer.checked("within");
  composer.timed(1.0);
  CHECK(composer.asks());
}

TEST_CASE("with no time left there is no search, with some it has half") {
  for (const bool is_late : {true, false}) {
    EagerContractionsFixture composer("both", "cpu", 1'000'000'000);
    composer.checked("outside");
    composer.timed(2.0);
    composer.checked("within");
    composer.now_us = is_late ? 2'000'000'000 : 600'000'000;
    composer.timed(1.0);
    CHECK(composer.asks() == !is_late);
    if (is_late) continue;
    CHECK(single<SearchEagerContractions>(composer.sent).until_us ==
          800'000'000);
  }
}

TEST_CASE("where nothing is timed the module with more kernels is taken") {
  EagerContractionsFixture composer("both", "triton");
  composer.checked("outside");
  composer.checked("within");
  CHECK(composer.asks());
  composer.searched();
  composer.checked("within");
  CHECK(composer.count(composer.kernelbench_module()) == 2);
}

TEST_CASE(
    "by the near rule alone the report is of the eager-contractions "
    "partition") {
  EagerContractionsFixture composer("kernelbench");
  composer.checked("outside");
  composer.checked("within");
  composer.timed(1.0);
  composer.searched();
  composer.checked("within");
  composer.timed(1.4);
  CHECK(composer.kernelbench_module().empty());
  CHECK(composer.count(composer.file("composed/model_new.py")) == 2);
  const std::string report = composer.file("report.md");
  CHECK(report.contains("* aten.mm.default × 1"));
  CHECK(report.contains("relu+mm+tanh"));
}

TEST_CASE("another cut's module that was timed and is near spares the search") {
  Plan plan = plan_with_eager_contractions();
  plan.label = "ours";
  plan.others = plan.eager_contractions_partition;
  plan.others.front().label = "the library's";
  EagerContractionsFixture composer(plan, "both", "cpu", 0);
  composer.checked("outside");
  composer.timed(2.0);
  composer.checked("within");
  composer.timed(1.5);
  CHECK_FALSE(composer.asks());
  CHECK(only<CheckRequest>(composer.sent).empty());
  CHECK(composer.count(composer.kernelbench_module()) == 2);
  const std::string report = composer.file("report.md");
  CHECK(report.contains("another module is within: 1.50×"));
  CHECK(report.contains("PyTorch's operators: aten.mm.default × 1."));
}

namespace {

struct EagerContractionsDispatch : RunFixture<Dispatcher> {
  explicit EagerContractionsDispatch(const Plan& of) : plan(of) {
    RunStart run = small_run(blobs);
    run.options.jobs = 4;
    take(say(address::extractor, Dispatch{blobs.put(plan_to_json(of)), run}));
  }
  void take(const std::vector<Outgoing>& sent) {
    for (const auto& [to, m] : only<OptimizeSubgraph>(sent)) {
      started.push_back(m.subgraph);
    }
    for (const auto& [to, m] : only<TimerRequest>(sent)) {
      timers_ms.push_back(m.after_ms);
    }
    composed += only<Compose>(sent).size();
    for (const auto& [to, m] : only<EagerContractionsSearched>(sent)) {
      searched.push_back(m);
    }
    for (const auto& [to, m] : only<WriteFilesRequest>(sent)) {
      take(say(address::files, WriteFilesReply{m.effect, {}}));
    }
  }
  void done(const std::string& id) {
    SubgraphDone message;
    message.subgraph = id;
    message.outcome = "not_faster";
    take(say(address::agent(id), message));
  }

  Plan plan;
  std::vector<std::string> started;
  std::vector<std::int64_t> timers_ms;
  std::vector<EagerContractionsSearched> searched;
  std::size_t composed = 0;
};

}  // namespace

TEST_CASE(
    "what only the eager-contractions partition has is searched once it is "
    "asked for") {
  for (const std::int64_t until_us : {0, 90'000'000}) {
    EagerContractionsDispatch dispatcher(plan_with_eager_contractions());
    // Asked before its time it does nothing.
    dispatcher.take(
        dispatcher.say(address::composer, SearchEagerContractions{}));
    REQUIRE(dispatcher.started.size() == 1);
    dispatcher.done(dispatcher.started[0]);
    CHECK(dispatcher.composed == 1);
    CHECK(dispatcher.started.size() == 1);
    dispatcher.take(
        dispatcher.say(address::composer, SearchEagerContractions{until_us}));
    REQUIRE(dispatcher.started.size() == 3);
    CHECK(dispatcher.timers_ms.size() == (until_us > 0 ? 2 : 0));
    dispatcher.done(dispatcher.started[1]);
    CHECK(dispatcher.searched.empty());
    dispatcher.done(dispatcher.started[2]);
    REQUIRE(dispatcher.searched.size() == 1);
    CHECK(dispatcher.searched[0].results.size() == 2);
    CHECK(dispatcher.composed == 1);
    // That was all.
    dispatcher.take(
        dispatcher.say(address::composer, SearchEagerContractions{}));
    CHECK(dispatcher.searched.size() == 1);
  }
}

TEST_CASE(
    "an eager-contractions partition of known pieces is answered at once") {
  Plan plan = plan_with_eager_contractions();
  plan.others = plan.eager_contractions_partition;
  EagerContractionsDispatch dispatcher(plan);
  const std::vector<std::string> started = dispatcher.started;
  for (const std::string& id : started) dispatcher.done(id);
  CHECK(dispatcher.composed == 1);
  dispatcher.take(dispatcher.say(address::composer, SearchEagerContractions{}));
  REQUIRE(dispatcher.searched.size() == 1);
  CHECK(dispatcher.searched[0].results.empty());
}
