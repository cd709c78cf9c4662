#include <doctest/doctest.h>

#include "actors/llm/history.hpp"
#include "actors/llm/search.hpp"
#include "actors/llm/seeds.hpp"

namespace weft {
namespace {

OptimizeSubgraph work(const std::string& search, int rounds = 9) {
  OptimizeSubgraph optimize_subgraph;
  optimize_subgraph.subgraph = "sg";
  optimize_subgraph.options.seeds = {"compiler", "llm"};
  optimize_subgraph.options.llm.search = search;
  optimize_subgraph.options.llm.rounds = rounds;
  Gpu gpu;
  gpu.l2_bytes = 50 << 20;
  optimize_subgraph.machine.gpus = {gpu};
  return optimize_subgraph;
}

SeedResult timed(const std::string& id, double us) {
  SeedResult result;
  result.seed.id = id;
  result.seed.origin = id.substr(0, id.find('-'));
  result.verdict.correct = true;
  result.verdict.kind = "correct";
  result.timed = true;
  result.timing.candidate = {us, us, us, 9};
  return result;
}

LlmSearch::Results results(const std::vector<SeedResult>& all) {
  LlmSearch::Results results;
  for (const SeedResult& seed_result : all)
    results[seed_result.seed.id] = seed_result;
  return results;
}

std::vector<std::string> parents(const std::vector<RefineRequest>& requests) {
  std::vector<std::string> ids;
  for (const RefineRequest& request : requests) ids.push_back(request.seed.id);
  return ids;
}

struct Search {
  explicit Search(const OptimizeSubgraph& given) : asked(given) {
    search.begin(asked.options);
  }
  std::vector<std::string> next(const std::vector<SeedResult>& all) {
    const auto known = results(all);
    const SeedResult* best = nullptr;
    for (const auto& [id, item] : known) {
      if (!best ||
          item.timing.candidate.median_us < best->timing.candidate.median_us) {
        best = &item;
      }
    }
    const auto result = parents(search.next(asked, known, best));
    for (std::size_t i = 0; i < result.size(); ++i) search.replied({});
    return result;
  }
  OptimizeSubgraph asked;
  LlmSearch search;
};

using Ids = std::vector<std::string>;

TEST_CASE("greedy refines the best that the model wrote") {
  Search search(work("greedy"));
  CHECK(search.next({timed("compiler-0", 50)}) == Ids{""});
  CHECK(search.next({timed("compiler-0", 50), timed("llm-0", 90),
                     timed("llm-1", 80)}) == Ids{"llm-1"});
}

TEST_CASE("a beam refines the best of compiler and model together") {
  Search search(work("beam:2"));
  CHECK(search.next({timed("compiler-0", 50), timed("compiler-1", 60)}) ==
        Ids{""});
  CHECK(search.next({timed("compiler-0", 50), timed("compiler-1", 70),
                     timed("llm-0", 60)}) == Ids{"compiler-0", "llm-0"});
}

TEST_CASE("gains of less than 5 % end a search") {
  Search search(work("greedy"));
  search.next({timed("compiler-0", 50)});
  CHECK(search.next({timed("llm-0", 100)}) == Ids{"llm-0"});
  CHECK(search.next({timed("llm-0", 100), timed("llm-1", 96)}).size() == 1);
  CHECK(search.next({timed("llm-0", 100), timed("llm-2", 95.5)}).empty());
  CHECK(search.search.summary().note.contains("without a gain of 5 %"));
}

TEST_CASE("a kernel at the floor is nothing to ask a model about") {
  auto best = timed("compiler-0", 100);
  best.timing.floor_us = 96;
  best.timing.bytes_floor = std::int64_t{1} << 30;
  Search search(work("beam:4"));
  CHECK(search.next({best}).empty());
  CHECK(search.search.summary().note ==
        "not asked: the compiler's kernel is at the floor");
  CHECK(search.search.summary().rounds == 0);
  // One that fits into the caches has no floor.
  best.timing.bytes_floor = 1 << 20;
  Search other(work("beam:4"));
  CHECK(other.next({best}).size() == 1);
}

TEST_CASE("an answer that is no kernel is told beside what is refined") {
  Search search(work("greedy"));
  search.next({timed("compiler-0", 50)});
  const auto known = results({timed("llm-0", 90)});
  search.search.next(search.asked, known, nullptr);
  SeedsReply reply;
  reply.failure = {"no_kernel", "the same kernel was proposed before"};
  search.search.replied(reply);
  const auto asked = search.search.next(search.asked, known, nullptr);
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].seed.id == "llm-0");
  REQUIRE(asked[0].history.size() == 2);
  CHECK(tried_line(asked[0].history[1]) ==
        "round 1, your last answer: not used, the same kernel was proposed "
        "before");
}

/// The same kernel of a slow minute: twice the time, the same ratio.
SeedResult in_a_slow_minute(SeedResult result, double ratio) {
  result.timing.over_eager = {ratio, ratio, ratio};
  result.timing.candidate.median_us *= 2;
  return result;
}

TEST_CASE("ratios of the same rounds decide, not times of other minutes") {
  auto old = timed("llm-0", 100);
  old.timing.over_eager = {2, 2, 2};
  const auto better = in_a_slow_minute(timed("llm-1", 80), 2.5);
  Search search(work("greedy"));
  search.asked.options.llm.edition = 2;
  search.next({timed("compiler-0", 50)});
  CHECK(search.next({old}) == Ids{"llm-0"});
  CHECK(search.next({old, better}) == Ids{"llm-1"});
  // It is a gain: two fruitless rounds would have to follow.
  CHECK(search.next({old, better}) == Ids{"llm-1"});
  CHECK(search.next({old, better}).empty());
  // A run that was begun by an older weft decides as it did.
  Search older(work("greedy"));
  older.next({timed("compiler-0", 50)});
  CHECK(older.next({old, better}) == Ids{"llm-0"});
}

TEST_CASE("a round says which kernels it is about, and how far they are") {
  Search search(work("beam:2"));
  search.asked.options.llm.name = "mini";
  const auto asked = [&](const std::vector<SeedResult>& all) {
    return asked_text(search.search.next(search.asked, results(all), nullptr));
  };
  CHECK(asked({timed("compiler-0", 50)}) == "asks mini for first kernels");
  CHECK(asked({}) == "round 1: first kernels once more");
  auto wrong = timed("llm-0", 0);
  wrong.timed = wrong.verdict.correct = false;
  wrong.verdict.kind = "wrong";
  CHECK(asked({timed("compiler-0", 50), wrong}) ==
        "round 2: compiler-0 (correct, 50.0 us), llm-0 (wrong)");
}

TEST_CASE("a run out of budget ends a search, and says so") {
  Search search(work("greedy"));
  const auto asked = search.search.next(search.asked, {}, nullptr);
  CHECK(asked.size() == 1);
  SeedsReply reply;
  reply.failure = {"budget", "too dear"};
  search.search.replied(reply);
  CHECK(search.search.is_over());
  CHECK(search.search.summary().out_of_budget);
}

}  // namespace
}  // namespace weft
