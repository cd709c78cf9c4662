#include "actors/composer.hpp"

#include "compiler/targets.hpp"
#include "tests/actors/run_bench.hpp"

using namespace weft;

namespace {

/// Two subgraphs whose kernels won; the second came nearer to its tolerance.
struct ComposerBench : RunBench<Composer> {
  explicit ComposerBench(const std::string& target = "cpu",
                         const std::string& outcome = "won",
                         const std::string& accept = "weft",
                         std::int64_t ends_us = 0) {
    plan = partition(two_piece_graph(), *find_target("cpu"));
    Compose compose{blobs.put(plan_to_json(plan)), small_run(blobs), {}};
    compose.run.options.target = target;
    compose.run.options.accept = accept;
    compose.ends_us = ends_us;
    double error = 1e-7;
    for (const Subgraph& subgraph : plan.subgraphs) {
      SubgraphDone done;
      done.subgraph = subgraph.id;
      done.outcome = outcome;
      done.best.verdict.correct = true;
      done.best.verdict.tolerance = 1e-5;
      done.best.verdict.max_error = error;
      done.best.seed.target = "cpu";
      done.best.seed.source = blobs.put("// kernel of " + subgraph.id);
      compose.results.push_back(done);
      error *= 10;
    }
    sent = say(address::dispatcher, compose);
  }
  void checked(bool correct, const std::string& near = "",
               const std::string& compiled = "") {
    CheckReply reply;
    reply.effect = one<CheckRequest>(sent).effect;
    reply.verdict.near_eager.outcome = near;
    reply.verdict.near_eager.reason = near == "far" ? "draw 1" : "";
    reply.verdict.near_eager.compiled = compiled;
    reply.verdict.correct = correct;
    reply.verdict.kind = correct ? "correct" : "wrong";
    reply.verdict.reason = correct ? "" : "output 0";
    sent = say(address::verify, reply);
  }
  void timed(double over_eager, const std::string& rejected = "") {
    TimeReply reply;
    reply.effect = one<TimeRequest>(sent).effect;
    reply.timing.over_eager = {over_eager, over_eager * 0.99,
                               over_eager * 1.01};
    reply.rejected = rejected;
    sent = say(address::verify, reply);
  }
  void probed() {
    sent = say(address::verify,
               ProbeReply{one<ProbeRequest>(sent).effect, {}, "2", 10, 2, {}});
  }
  /// What was asked for cannot be had, nor when it is asked for again.
  template <class Request, class Reply>
  void fails(const std::string& why) {
    for (int i = 0; i < 2; ++i) {
      Reply reply;
      reply.effect = one<Request>(sent).effect;
      reply.failure = {"failed", why};
      sent = say(address::verify, reply);
    }
  }
  WriteFilesRequest files() { return one<WriteFilesRequest>(sent); }
  RunFinished finish() {
    return one<RunFinished>(
        say(address::files, WriteFilesReply{files().effect, {}}));
  }
  /// The text of model_new.py that is being checked.
  std::string composed() {
    return *blobs.get(one<CheckRequest>(sent).subject.source);
  }
  bool holds(const std::string& text, std::size_t index) {
    return text.find("// kernel of " + plan.subgraphs[index].id) !=
           std::string::npos;
  }

  Plan plan;
  std::vector<Outgoing> sent;
};

std::vector<std::string> paths_of(const WriteFilesRequest& files) {
  std::vector<std::string> paths;
  for (const auto& file : files.files) paths.push_back(file.path);
  return paths;
}

}  // namespace

TEST_CASE("the winners are composed, verified, timed and reported") {
  ComposerBench composer;
  CHECK(composer.holds(composer.composed(), 0));
  CHECK(composer.holds(composer.composed(), 1));
  composer.checked(true);
  composer.timed(2.0);
  composer.probed();
  CHECK(paths_of(composer.files()) ==
        std::vector<std::string>{"report.md", "results.csv", "result.json",
                                 "composed/model_new.py"});
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a wrong composition drops the kernel nearest to its tolerance") {
  ComposerBench composer;
  composer.checked(false);
  CHECK(composer.holds(composer.composed(), 0));
  CHECK(!composer.holds(composer.composed(), 1));
  composer.checked(true);
  composer.timed(2.0);
  composer.probed();
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a composition that was slower once is timed again") {
  ComposerBench composer;
  composer.checked(true);
  composer.timed(0.5);
  composer.timed(2.0);
  composer.probed();
  CHECK(composer.blobs.get(composer.files().files[0].blob)
            ->contains("Timed twice"));
  CHECK(composer.finish().summary.find("2.00") != std::string::npos);
}

TEST_CASE("one that was slower and cannot be timed again gives way") {
  ComposerBench composer;
  composer.checked(true);
  composer.timed(0.5);
  composer.fails<TimeRequest, TimeReply>("out of memory");
  CHECK(!composer.holds(composer.composed(), 0));
}

TEST_CASE("one slower twice gives way to the framework's forward") {
  ComposerBench composer;
  composer.checked(true);
  composer.timed(0.5);
  composer.timed(0.5);
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true);
  composer.timed(0.5);  // its own forward: there is nothing left to drop
  composer.probed();
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.find("no kernel of ours") != std::string::npos);
}

TEST_CASE("a composition that cheats in a timed call is not accepted") {
  ComposerBench composer;
  composer.checked(true);
  composer.timed(9.0, "wrong in a timed call");
  CHECK(!composer.holds(composer.composed(), 1));
}

TEST_CASE("when not even the bare model passes, the run is not verified") {
  ComposerBench composer;
  composer.checked(false);
  composer.checked(false);
  composer.checked(false);
  CHECK(paths_of(composer.files()) ==
        std::vector<std::string>{"report.md", "results.csv", "result.json"});
  CHECK(composer.finish().exit_code == 1);
}

TEST_CASE("an oracle that dies is asked once more, then the run ends") {
  ComposerBench composer;
  composer.fails<CheckRequest, CheckReply>("the oracle died");
  const auto finished = one<RunFinished>(composer.sent);
  CHECK(finished.exit_code == 1);
  CHECK(finished.summary.find("oracle died") != std::string::npos);
}

TEST_CASE("what is right and cannot be timed is reported so") {
  ComposerBench composer;
  composer.checked(true);
  composer.fails<TimeRequest, TimeReply>("the baseline failed");
  const std::string report =
      *composer.blobs.get(composer.files().files[0].blob);
  CHECK(report.contains("Verified, but not timed: the baseline failed"));
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a report is written even when the machine cannot be probed") {
  ComposerBench composer;
  composer.checked(true);
  composer.timed(2.0);
  composer.fails<ProbeRequest, ProbeReply>("no");
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("proven kernels are composed and verified, and nothing is timed") {
  ComposerBench composer("triton", "proven");
  CHECK(composer.holds(composer.composed(), 0));
  composer.checked(true);
  CHECK(only<TimeRequest>(composer.sent).empty());
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains("2 of 2"));
  CHECK(finished.summary.contains("not timed: there is no GPU here"));
}

TEST_CASE("a module far from eager is composed again where both rules count") {
  ComposerBench composer("cpu", "won", "both");
  const auto first = one<CheckRequest>(composer.sent);
  CHECK(first.rules == std::vector<std::string>{"weft", "near-eager"});
  CHECK(first.with_compile);
  composer.checked(true, "far", "near");
  composer.timed(2.0);
  // With one kernel, the nearer one: is that near?
  const auto sought = one<CheckRequest>(composer.sent);
  CHECK(sought.rules == std::vector<std::string>{"near-eager"});
  CHECK(composer.holds(composer.composed(), 0));
  CHECK(!composer.holds(composer.composed(), 1));
  composer.checked(true, "near");
  CHECK(composer.holds(composer.composed(), 0));  // checked by both rules now
  CHECK(one<CheckRequest>(composer.sent).rules == first.rules);
  composer.checked(true, "near");
  composer.timed(1.5);
  composer.probed();
  const auto files = composer.files();
  CHECK(paths_of(files) ==
        std::vector<std::string>{"report.md", "results.csv", "result.json",
                                 "composed/model_new.py",
                                 "composed/near_eager/model_new.py"});
  const std::string both = *composer.blobs.get(files.files[3].blob);
  const std::string near = *composer.blobs.get(files.files[4].blob);
  CHECK((composer.holds(both, 0) && composer.holds(both, 1)));
  CHECK((composer.holds(near, 0) && !composer.holds(near, 1)));
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains("another module is: 1.50×"));
}

TEST_CASE("where no kernel is near to eager the framework's forward is") {
  ComposerBench composer("cpu", "won", "both");
  composer.checked(true, "far", "near");
  composer.timed(2.0);
  composer.checked(true, "far");
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true, "near");
  composer.timed(1.0);
  composer.probed();
  CHECK(composer.files().files.size() == 5);
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("no second module is made where none is wanted or could be") {
  struct Case {
    const char *accept, *near, *compiled;
  };
  for (const auto& [accept, near, compiled] :
       {Case{"weft", "far", "near"}, Case{"both", "near", "near"},
        Case{"both", "far", "far"}, Case{"both", "failed", "failed"},
        Case{"both", "", ""}}) {
    CAPTURE(accept);
    CAPTURE(near);
    ComposerBench composer("cpu", "won", accept);
    composer.checked(true, near, compiled);
    composer.timed(2.0);
    composer.probed();
    CHECK(composer.files().files.size() == 4);
    CHECK(composer.finish().exit_code == 0);
  }
}

TEST_CASE("by the near rule alone there is one module, and it is near") {
  ComposerBench composer("cpu", "won", "near-eager");
  composer.checked(true, "far", "far");
  composer.checked(true, "near");  // it is sought before anything is timed
  composer.checked(true, "near");
  composer.timed(1.5);
  composer.probed();
  const auto files = composer.files();
  CHECK(files.files.size() == 4);
  CHECK(!composer.holds(*composer.blobs.get(files.files[3].blob), 1));
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains("1 of 2 distinct subgraphs ours"));
  CHECK(finished.summary.contains("; near to eager"));
}

TEST_CASE("by the near rule alone what is far is not verified") {
  ComposerBench composer("cpu", "won", "near-eager");
  composer.checked(true, "far", "near");
  composer.checked(true, "far");
  composer.checked(true, "far");  // not even Model's own forward
  composer.probed();
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 1);
  CHECK(finished.summary.contains("draw 1"));
}

TEST_CASE("a near module that cannot be timed gives way to Model's forward") {
  ComposerBench composer("cpu", "won", "both");
  composer.checked(true, "far", "near");
  composer.timed(2.0);
  composer.checked(true, "near");
  composer.checked(true, "near");
  composer.fails<TimeRequest, TimeReply>("out of memory");
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true, "near");
  composer.timed(1.0);
  composer.probed();
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a near module slower than eager twice gives way, too") {
  ComposerBench composer("cpu", "won", "both");
  composer.checked(true, "far", "near");
  composer.timed(2.0);
  composer.checked(true, "near");
  composer.checked(true, "near");
  composer.timed(0.5);
  composer.timed(0.5);
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true, "near");
  composer.timed(0.5);
  composer.probed();
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("when the run's time is over the whole is checked, and not timed") {
  ComposerBench composer("cpu", "won", "weft", 1);
  composer.now_us = 2;
  composer.checked(true);
  CHECK(composer.blobs.get(composer.files().files[0].blob)
            ->contains("time was over"));
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains("2 of 2 distinct subgraphs ours, not timed"));
}

TEST_CASE("when the run's time is over a wrong whole loses all kernels") {
  ComposerBench composer("cpu", "won", "weft", 1);
  composer.now_us = 2;
  composer.checked(false);
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true);
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("when the run's time is over no near module is looked for long") {
  ComposerBench composer("cpu", "won", "near-eager", 1);
  composer.now_us = 2;
  composer.checked(true, "far", "near");
  CHECK(!composer.holds(composer.composed(), 0));
  composer.checked(true, "near");
  composer.probed();
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a timing has no more time than the run, and no torch.compile") {
  ComposerBench composer("cpu", "won", "weft", 60'000'000);
  composer.checked(true);
  const auto timing = one<TimeRequest>(composer.sent);
  CHECK(timing.wall_ms == 60'000);
  CHECK(!timing.with_compile);
}

namespace {

/// A model that is cut in two ways: of both pieces, or of the second alone.
struct TwoWaysBench : ComposerBench {
  explicit TwoWaysBench(bool for_sizes = false) {
    if (for_sizes) {
      plan.model.growth.sizes = {64};
      for (std::size_t i = 0; i < plan.model.nodes.size(); ++i) {
        const std::string node = "/nodes/" + std::to_string(i);
        plan.model.growth.per[node + "/values/0/shape/0"] = {1};
      }
    }
    Plan both = plan;
    both.way = "both";
    Plan second = plan;
    second.way = "second";
    second.placements.erase(second.placements.begin());
    second.subgraphs.erase(second.subgraphs.begin());
    both.others = {second};
    Compose compose{blobs.put(plan_to_json(both)), small_run(blobs), {}};
    for (const Subgraph& subgraph : plan.subgraphs) {
      SubgraphDone done;
      done.subgraph = subgraph.id;
      done.outcome = "won";
      done.best.verdict.correct = true;
      done.best.seed.target = "cpu";
      done.best.seed.source = blobs.put("// kernel of " + subgraph.id);
      compose.results.push_back(done);
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
    TwoWaysBench composer;
    CHECK(composer.holds(composer.composed(), 0));
    composer.checked(true);
    composer.timed(2.0);
    CHECK(!composer.holds(composer.composed(), 0));
    CHECK(composer.holds(composer.composed(), 1));
    composer.checked(true);
    composer.timed(second);
    composer.probed();
    CHECK(composer.holds(composer.module(), 0) == (second < 2));
    CHECK(composer.report().contains(second < 2 ? "Taken: both"
                                                : "Taken: second"));
    CHECK(composer.finish().summary.contains(second < 2 ? "2.00" : "3.00"));
  }
}

TEST_CASE("of two cuts for any batch each is right at all that are judged") {
  const std::size_t judged = 1 + judged_sizes({64}).size();
  TwoWaysBench composer(true);
  for (const double speed : {2.0, 3.0}) {
    for (std::size_t i = 0; i < judged; ++i) composer.checked(true);
    composer.timed(speed);
  }
  composer.probed();
  CHECK(composer.report().contains("Taken: second"));
  TwoWaysBench other(true);
  for (std::size_t i = 0; i < judged; ++i) other.checked(true);
  other.timed(2.0);
  other.checked(true);
  other.checked(false);
  other.probed();
  CHECK(other.holds(other.module(), 0));
}

TEST_CASE("a cut whose module is wrong leaves the other") {
  TwoWaysBench composer;
  composer.checked(true);
  composer.timed(2.0);
  composer.checked(false);
  composer.probed();
  CHECK(composer.holds(composer.module(), 0));
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a cut that cannot be checked or timed leaves the other") {
  TwoWaysBench composer;
  composer.fails<CheckRequest, CheckReply>("out of memory");
  composer.checked(true);
  composer.timed(2.0);
  composer.probed();
  CHECK(!composer.holds(composer.module(), 0));
  CHECK(composer.report().contains("out of memory"));
}

TEST_CASE("where both cuts are slower the framework's forward stays") {
  TwoWaysBench composer;
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
struct StandInBench : ComposerBench {
  explicit StandInBench(const std::string& outcome,
                        const std::string& accept = "weft") {
    Plan written = plan;
    written.way = "as written";
    Plan one = plan;
    one.way = "in one call";
    for (Node& node : one.model.nodes) {
      if (!node.target.starts_with("aten.mm")) continue;
      node.target = "aten.scaled_dot_product_attention.default";
      node.source = "p.py:7";
      one.stand_ins = {node.name};
    }
    written.others = {one};
    Compose compose{blobs.put(plan_to_json(written)), small_run(blobs), {}};
    compose.run.options.accept = accept;
    for (const Subgraph& subgraph : plan.subgraphs) {
      SubgraphDone done;
      done.subgraph = subgraph.id;
      done.outcome = outcome;
      done.best.verdict.correct = outcome == "won";
      done.best.seed.target = "cpu";
      done.best.seed.source = blobs.put("// kernel of " + subgraph.id);
      compose.results.push_back(done);
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
  StandInBench composer("lost");
  CHECK(composer.stands_in(composer.composed()));
  CHECK(composer.composed().contains("class ModelNew"));
  composer.checked(true);
  composer.timed(2.0);
  composer.probed();
  CHECK(composer.report().contains("Taken: in one call"));
  CHECK(composer.report().contains("for the attention that ends at p.py:7"));
  CHECK(
      composer.stands_in(*composer.blobs.get(composer.files().files[3].blob)));
  const auto finished = composer.finish();
  CHECK(finished.exit_code == 0);
  CHECK(finished.summary.contains("1 written-out attention in one call"));
}

TEST_CASE(
    "a stand-in that is wrong without a kernel, too, leaves the model's") {
  StandInBench composer("lost");
  composer.checked(false);
  CHECK_FALSE(composer.stands_in(composer.composed()));
  composer.checked(true);
  composer.timed(1.0);
  composer.probed();
  CHECK(composer.report().contains("Of the cut with in one call: output 0"));
  CHECK_FALSE(composer.report().contains("for the attention"));
  CHECK(composer.finish().exit_code == 0);
}

TEST_CASE("a stand-in that is slower leaves the model's") {
  StandInBench composer("lost");
  composer.checked(true);
  composer.timed(0.5);
  composer.timed(0.5);
  CHECK_FALSE(composer.stands_in(composer.composed()));
}

TEST_CASE("of a stand-in's cut kernels go before the stand-in does") {
  StandInBench composer("won");
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
  CHECK(composer.report().contains("Taken: in one call"));
}

TEST_CASE("by the near rule alone a cut that is far leaves one that is near") {
  StandInBench composer("won", "near-eager");
  composer.checked(true, "near");
  composer.timed(2.0);
  CHECK(composer.stands_in(composer.composed()));
  composer.checked(true, "far");
  composer.probed();
  const std::string module =
      *composer.blobs.get(composer.files().files[3].blob);
  CHECK_FALSE(composer.stands_in(module));
  CHECK(composer.holds(module, 1));
  CHECK(composer.finish().summary.contains("2.00"));
}

TEST_CASE("the first that can be near to eager is the stand-in") {
  for (const bool is_near : {true, false}) {
    StandInBench composer("lost", "both");
    composer.checked(true, "far", "near");
    composer.timed(2.0);
    // Nothing lies between it and the framework's own forward.
    CHECK_FALSE(composer.stands_in(composer.composed()));
    composer.checked(true, is_near ? "near" : "far");
    if (!is_near) continue;
    composer.timed(1.0);
    composer.probed();
    CHECK(composer.files().files.size() == 5);
  }
  StandInBench composer("won", "both");
  composer.checked(true, "near", "near");
  composer.timed(2.0);
  composer.checked(true, "far", "near");
  composer.timed(3.0);
  // Of the stand-in and two kernels, the stand-in alone.
  CHECK(composer.stands_in(composer.composed()));
  CHECK_FALSE(composer.holds(composer.composed(), 0));
  composer.checked(true, "near");
  CHECK(composer.stands_in(composer.composed()));
  CHECK(composer.holds(composer.composed(), 0));
  composer.checked(true, "far");
  // Both rules, and then the time.
  CHECK(composer.stands_in(composer.composed()));
  composer.checked(true, "near");
  composer.timed(1.5);
  composer.probed();
  const std::string near = *composer.blobs.get(composer.files().files[4].blob);
  CHECK(composer.stands_in(near));
}
