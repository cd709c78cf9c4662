// The composer, on the bench: what its checks and timings are answered with,
// and what it composed.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "actors/best_known.hpp"
#include "actors/composer.hpp"
#include "compiler/targets.hpp"
#include "tests/actors/run_fixture.hpp"

namespace weft {

/// What its kinds share; who derives from it says which run it is.
struct ComposingFixture : RunFixture<Composer> {
  /// Of a subgraph whose kernel, a text that names it, ended so.
  SubgraphDone done(const std::string& id, const std::string& outcome,
                    bool correct = true) {
    SubgraphDone done;
    done.subgraph = id;
    done.outcome = outcome;
    done.best.verdict.correct = correct;
    done.best.seed.target = "cpu";
    done.best.seed.source = blobs.put("// kernel of " + id);
    return done;
  }
  void timed(double over_eager, const std::string& rejected = "",
             double spread = 0.01) {
    TimeReply reply;
    reply.effect = single<TimeRequest>(sent).effect;
    reply.timing.over_eager = {over_eager, over_eager * (1 - spread),
                               over_eager * (1 + spread)};
    reply.rejected = rejected;
    sent = say(address::verify, reply);
  }
  void probed() {
    sent =
        say(address::verify,
            ProbeReply{single<ProbeRequest>(sent).effect, {}, "2", 10, 2, {}});
  }
  WriteFilesRequest files() { return single<WriteFilesRequest>(sent); }
  /// The text of model_new.py that is being checked.
  std::string composed() {
    return *blobs.get(single<CheckRequest>(sent).subject.source);
  }

  Plan plan;
  std::vector<Outgoing> sent;
};

/// Two subgraphs whose kernels won; the second came nearer to its tolerance.
struct ComposerFixture : ComposingFixture {
  explicit ComposerFixture(const std::string& target = "cpu",
                           const std::string& outcome = "won",
                           const std::string& accept = "weft",
                           std::int64_t ends_us = 0,
                           bool has_present_rules = false,
                           std::int64_t final_timing_ms = 4'000) {
    plan = partition(two_piece_graph(), *find_target("cpu"));
    Compose compose{blobs.put(plan_to_json(plan)), small_run(blobs), {}};
    compose.run.options.target = target;
    compose.run.options.accept = accept;
    compose.run.options.final_timing_ms = final_timing_ms;
    compose.ends_us = ends_us;
    if (has_present_rules) compose.run.vocabulary = vocabulary_version;
    double error = 1e-7;
    for (const Subgraph& subgraph : plan.subgraphs) {
      compose.results.push_back(done(subgraph.id, outcome));
      Verdict& verdict = compose.results.back().best.verdict;
      verdict.tolerance = 1e-5;
      verdict.max_error = error;
      error *= 10;
    }
    sent = say(address::dispatcher, compose);
  }
  void checked(bool correct, const std::string& near = "",
               const std::string& compiled = "") {
    CheckReply reply;
    reply.effect = single<CheckRequest>(sent).effect;
    reply.verdict.kernelbench.outcome = near;
    reply.verdict.kernelbench.reason = near == "outside" ? "draw 1" : "";
    reply.verdict.kernelbench.compiled = compiled;
    reply.verdict.correct = correct;
    reply.verdict.kind = correct ? "correct" : "wrong";
    reply.verdict.reason = correct ? "" : "output 0";
    sent = say(address::verify, reply);
  }
  /// What was asked for cannot be had, nor when it is asked for again.
  template <class Request, class Reply>
  void fails(const std::string& why) {
    for (int i = 0; i < 2; ++i) {
      Reply reply;
      reply.effect = single<Request>(sent).effect;
      reply.failure = {"failed", why};
      sent = say(address::verify, reply);
    }
  }
  RunFinished finish() {
    return single<RunFinished>(
        say(address::files, WriteFilesReply{files().effect, {}}));
  }
  bool holds(const std::string& text, std::size_t index) {
    return text.contains("// kernel of " + plan.subgraphs[index].id);
  }
};

/// A run whose plan has an eager-contractions partition.
struct EagerContractionsCase : ComposingFixture {
  void checked(const std::string& near, bool correct = true) {
    CheckReply reply;
    reply.effect = single<CheckRequest>(sent).effect;
    reply.verdict.correct = correct;
    reply.verdict.kind = correct ? "correct" : "wrong";
    reply.verdict.kernelbench = {near, "", 5, 0, 1e-4, "within", ""};
    sent = say(address::verify, reply);
  }
  /// The first `count` subgraphs of the eager-contractions partition won.
  void searched(std::size_t count = 2) {
    EagerContractionsSearched reply;
    for (const Subgraph& subgraph :
         plan.eager_contractions_partition.front().subgraphs) {
      reply.results.push_back(done(subgraph.id, "won"));
      if (reply.results.size() > count)
        reply.results.back().outcome = "not_faster";
    }
    sent = say(address::dispatcher, reply);
  }
  bool asks() const { return !only<SearchEagerContractions>(sent).empty(); }
  std::string file(const std::string& path) {
    if (!only<ProbeRequest>(sent).empty()) probed();
    for (const FileToWrite& file : files().files) {
      if (file.path == path) return *blobs.get(file.blob);
    }
    return "";
  }
  std::string kernelbench_module() {
    return file("composed/kernelbench/model_new.py");
  }
  /// How many of the eager-contractions partition's kernels are in that text.
  std::size_t count(const std::string& text) const {
    const auto& subgraphs = plan.eager_contractions_partition.front().subgraphs;
    return static_cast<std::size_t>(
        std::ranges::count_if(subgraphs, [&](const Subgraph& subgraph) {
          return text.contains("// kernel of " + subgraph.id);
        }));
  }
};

}  // namespace weft
