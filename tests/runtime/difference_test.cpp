#include "runtime/debug/difference.hpp"

#include "messages/vocabulary.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

SeedResult result(const std::string& seed, double us) {
  SeedResult result;
  result.seed.id = seed;
  result.verdict.correct = true;
  result.verdict.reason = "right, " + std::to_string(us) + " us";
  result.timed = true;
  result.timing.candidate.median_us = us;
  return result;
}

/// An agent that was told of two seeds, and has the faster one timed again.
class Run {
 public:
  Run(double first_us, double second_us, bool other_order = false) {
    add("dispatcher", "agent/a", OptimizeSubgraph{}, 0);
    const auto answer = [&](const char* seed, double us) {
      add("worker/a." + std::string(seed), "agent/a", result(seed, us), 1);
    };
    if (other_order) answer("s1", second_us);
    answer("s0", first_us);
    if (!other_order) answer("s1", second_us);
    const std::string best = first_us < second_us ? "s0" : "s1";
    add("agent/a", "worker/a." + best, TimeSeed{100, false}, 3);
    value(journal.append(events_));
  }
  Directory directory;
  Journal journal = value(Journal::create(directory / "j.db", Sync::normal));

 private:
  void add(const Address& src, const Address& dst, const Message& message,
           std::uint64_t cause) {
    events_.push_back({0, cause, 0, src, dst, std::string(name_of(message)),
                       encode(message)});
  }
  std::vector<Envelope> events_;
};

TEST_CASE("runs that differ in times and order alone decided alike") {
  const Run left(10, 20);
  const Run right(11, 19, true);
  const auto found = value(difference(left.journal, right.journal));
  CHECK(!found.first);
  CHECK(found.differing == 0);
  CHECK(found.alike == 4);
}

TEST_CASE("the first other decision comes with what was told otherwise") {
  const Run left(10, 20);
  const Run right(30, 20);
  const auto found = value(difference(left.journal, right.journal));
  REQUIRE(found.first);
  REQUIRE(found.first->left);
  CHECK(found.first->left->type == TimeSeed::name);
  CHECK(found.first->left->dst == "worker/a.s0");
  CHECK(!found.first->right);
  REQUIRE(found.instead.size() == 1);
  CHECK(found.instead[0].dst == "worker/a.s1");
  REQUIRE(found.inputs.size() == 1);
  bool has_time = false;
  for (const FieldDifference& field : found.inputs[0].fields) {
    if (field.path != "timing.candidate.median_us") continue;
    has_time = true;
    CHECK(field.left == 10);
    CHECK(field.right == 30);
  }
  CHECK(has_time);
  CHECK(found.left_causes.back().seq == 1);
}

TEST_CASE("fields are named by their path, also where one side has none") {
  const nlohmann::json left = {{"a", {{"b", 1}, {"c", 2}}}, {"d", {1, 2}}};
  const nlohmann::json right = {{"a", {{"b", 1}, {"c", 3}}}, {"d", {1}}};
  const auto fields = fields_between(left, right, 10);
  REQUIRE(fields.size() == 2);
  CHECK(fields[0].path == "a.c");
  CHECK(fields[1].path == "d.1");
  CHECK(fields[1].right.is_null());
  CHECK(fields_between(left, right, 1).size() == 1);
}

}  // namespace
}  // namespace weft
