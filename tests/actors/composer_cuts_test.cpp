// The composer where a model is cut in several ways, or a call of the library's
// stands in for several of the model's: which module is taken.
#include "tests/actors/composer_fixture.hpp"

using namespace weft;

namespace {

/// A model that is cut in two ways: of both pieces, or of the second alone.
struct TwoPartitionsFixture : ComposerFixture {
  explicit TwoPartitionsFixture(bool for_sizes = false) {
    if (for_sizes) {
      plan.model.symbolic_shapes.sizes = {64};
      for (std::size_t i = 0; i < plan.model.nodes.size(); ++i) {
        const std::string node = "/nodes/" + std::to_string(i);
        plan.model.symbolic_shapes.coefficients[node + "/values/0/shape/0"] = {
            1};
      }
    }
    Plan both = plan;
    both.label = "both";
    Plan second = plan;
    second.label = "second";
    second.placements.erase(second.placements.begin());
    second.subgraphs.erase(second.subgraphs.begin());
    both.others = {second};
    Compose compose{blobs.put(plan_to_json(both)), small_run(blobs), {}};
    for (const Subgraph& subgraph : plan.subgraphs) {
      compose.results.push_back(done(subgraph.id, "won"));
    }
    role = Composer();
    sent = say(address::dispatcher, compose);
  }
  std::string report() { return *blobs.get(files().files[0].blob); }
  std::string module() { return *blobs.get(files().files[3].blob); }
};

}  // namespace

TEST_CASE("of two cuts the one whose module is faster is taken") {
  for (const double second : {3.0, 1.5}) {
    TwoPartitionsFixture composer;
    CHECK(composer.holds(composer.composed(), 0));
    composer.checked(true);
    composer.timed(2.0);
    CHECK(!composer.holds(composer.composed(), 0));
    CHECK(composer.holds(composer.composed(), 1));
    composer.checked(true);
    composer.timed(second);
    composer.probed();
    CHECK(composer.holds(composer.module(), 0) == (second < 2));
    CHECK(composer.report().contains(second < 2 ? "Chosen: both"
                                                : "Chosen: second"));
    CHECK(composer.finish().summary.contains(second < 2 ? "2.00" : "3.00"));
  }
}

TEST_CASE("of two cuts for any batch each is right at all that are judged") {
  const std::size_t judged = 1 + judged_sizes({64}).size();
  TwoPartitionsFixture composer(true);
  for (const double speed : {2.0, 3.0}) {
    for (std::size_t i = 0; i < judged; ++i) composer.checked(true);
    composer.timed(speed);
  }
  composer.probed();
  CHECK(composer.report().contains("Chosen: second"));
  TwoPartitionsFixture other(true);
  for (std::size_t i = 0; i < judged; ++i) other.checked(true);
  other.timed(2.0);
  other.checked(true);
  other.checked(false);
  other.probed();
  CHECK(other.holds(other.module(), 0));
}

TEST_CASE("a cut whose module is wrong leaves the other") {
  TwoPartitionsFixture composer;
  composer.checked(true);
  composer.timed(2.0);
  composer.checked(false);
  composer.probed();
  CHECK(composer.holds(composer.module(), 0));
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a cut that cannot be checked or timed leaves the other") {
  TwoPartitionsFixture composer;
  composer.fails<CheckRequest, CheckReply>("out of memory");
  composer.checked(true);
  composer.timed(2.0);
  composer.probed();
  CHECK(!composer.holds(composer.module(), 0));
  CHECK(composer.report().contains("out of memory"));
}

TEST_CASE("where both cuts are slower the framework's forward stays") {
  TwoPartitionsFixture composer;
  for (int cut = 0; cut < 2; ++cut) {
    composer.checked(true);
    composer.timed(0.5);
    composer.timed(0.5);
  }
  CHECK(!composer.holds(composer.composed(), 0));
  CHECK(!composer.holds(composer.composed(), 1));
}

namespace {

/// A model that is cut as it is written, and with one call that stands in for
/// several. The kernels, which both cuts have, won or lost.
struct StandInFixture : ComposerFixture {
  explicit StandInFixture(const std::string& outcome,
                          const std::string& accept = "weft") {
    Plan written = plan;
    written.label = "as written";
    Plan single = plan;
    single.label = "in one call";
    for (Node& node : single.model.nodes) {
      if (!node.target.starts_with("aten.mm")) continue;
      node.target = "aten.scaled_dot_product_attention.default";
      node.source = "p.py:7";
      single.fused_attention_calls = {node.name};
    }
    written.others = {single};
    Compose compose{blobs.put(plan_to_json(written)), small_run(blobs), {}};
    compose.run.options.accept = accept;
    for (const Subgraph& subgraph : plan.subgraphs) {
      compose.results.push_back(done(subgraph.id, outcome, outcome == "won"));
    }
    role = Composer();
    sent = say(address::dispatcher, compose);
  }
  bool stands_in(const std::string& text) {
    return text.contains("scaled_dot_product_attention");
  }
  std::string report() { return *blobs.get(files().files[0].blob); }
};

}  // namespace

TEST_CASE("a cut with a stand-in is composed and timed without a kernel, too") {
  StandInFixture composer("not_faster");
  CHECK(composer.stands_in(composer.composed()));
  CHECK(composer.composed().contains("class ModelNew"));
  composer.checked(true);
  composer.timed(2.0);
  composer.probed();
  CHECK(composer.report().contains("Chosen: in one call"));
  CHECK(composer.report().contains("for the attention that ends at p.py:7"));
  CHECK(
      composer.stands_in(*composer.blobs.get(composer.files().files[3].blob)));
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains(
      "1 written-out attention replaced by PyTorch's call"));
}

TEST_CASE(
    "a stand-in that is wrong without a kernel, too, leaves the model's") {
  StandInFixture composer("not_faster");
  composer.checked(false);
  CHECK_FALSE(composer.stands_in(composer.composed()));
  composer.checked(true);
  composer.timed(1.0);
  composer.probed();
  CHECK(composer.report().contains("Partition \"in one call\": output 0"));
  CHECK_FALSE(composer.report().contains("for the attention"));
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a stand-in that is slower leaves the model's") {
  StandInFixture composer("not_faster");
  composer.checked(true);
  composer.timed(0.5);
  composer.timed(0.5);
  CHECK_FALSE(composer.stands_in(composer.composed()));
}

TEST_CASE("of a stand-in's cut kernels go before the stand-in does") {
  StandInFixture composer("won");
  CHECK_FALSE(composer.stands_in(composer.composed()));
  composer.checked(true);
  composer.timed(2.0);
  for (int kernels = 2; kernels > 0; --kernels) {
    CHECK(composer.stands_in(composer.composed()));
    composer.checked(false);
  }
  CHECK(composer.stands_in(composer.composed()));
  CHECK_FALSE(composer.holds(composer.composed(), 0));
  composer.checked(true);
  composer.timed(3.0);
  composer.probed();
  CHECK(composer.report().contains("Chosen: in one call"));
}

TEST_CASE("by the near rule alone a cut that is far leaves one that is near") {
  StandInFixture composer("won", "kernelbench");
  composer.checked(true, "within");
  composer.timed(2.0);
  CHECK(composer.stands_in(composer.composed()));
  composer.checked(true, "outside");
  composer.probed();
  const std::string module =
      *composer.blobs.get(composer.files().files[3].blob);
  CHECK_FALSE(composer.stands_in(module));
  CHECK(composer.holds(module, 1));
  CHECK(composer.finish().summary.contains("2.00"));
}

TEST_CASE("the first that can be near to eager is the stand-in") {
  for (const bool passes_kernelbench : {true, false}) {
    StandInFixture composer("not_faster", "both");
    composer.checked(true, "outside", "within");
    composer.timed(2.0);
    // Nothing lies between it and the framework's own forward.
    CHECK_FALSE(composer.stands_in(composer.composed()));
    composer.checked(true, passes_kernelbench ? "within" : "outside");
    if (!passes_kernelbench) continue;
    composer.timed(1.0);
    composer.probed();
    CHECK(composer.files().files.size() == 5);
  }
  StandInFixture composer("won", "both");
  composer.checked(true, "within", "within");
  composer.timed(2.0);
  composer.checked(true, "outside", "within");
  composer.timed(3.0);
  // Of the stand-in and two kernels, the stand-in alone.
  CHECK(composer.stands_in(composer.composed()));
  CHECK_FALSE(composer.holds(composer.composed(), 0));
  composer.checked(true, "within");
  CHECK(composer.stands_in(composer.composed()));
  CHECK(composer.holds(composer.composed(), 0));
  composer.checked(true, "outside");
  // Both rules, and then the time.
  CHECK(composer.stands_in(composer.composed()));
  composer.checked(true, "within");
  composer.timed(1.5);
  composer.probed();
  const std::string near = *composer.blobs.get(composer.files().files[4].blob);
  CHECK(composer.stands_in(near));
}
