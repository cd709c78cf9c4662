#include "runtime/ports/oracle_answers.hpp"

#include <doctest/doctest.h>

#include <limits>

namespace weft {
namespace {

using nlohmann::json;

TEST_CASE("the elements of a wrong result are read as they are told") {
  const json fields = {{"output", "y"},
                       {"index", {3, 4}},
                       {"expected", "5"},
                       {"got", "nan"},
                       {"error", "inf"}};
  const Verdict verdict = verdict_from({{"correct", false},
                                        {"kind", "wrong"},
                                        {"reason", "case 0"},
                                        {"mismatches", json::array({fields})}});
  CHECK(verdict.mismatches ==
        std::vector<Mismatch>{{"y", {3, 4}, "5", "nan", "inf"}});
  CHECK(verdict_from(json::object()).mismatches.empty());
}

TEST_CASE("evidence that is none costs no verdict") {
  const json odd = {{"output", 7}, {"index", nullptr}, {"expected", nullptr}};
  const json half = {{"output", "y"}, {"index", {"x", 1.5, 2}}, {"got", "1"}};
  const Verdict verdict = verdict_from(
      {{"kind", "wrong"}, {"mismatches", json::array({3, odd, half})}});
  CHECK(verdict.kind == "wrong");
  REQUIRE(verdict.mismatches.size() == 2);
  CHECK(verdict.mismatches[0] == Mismatch{});
  CHECK(verdict.mismatches[1] == Mismatch{"y", {2}, "", "1", ""});
  for (const json& none : {json(), json(3), json("text"), json::object()}) {
    CHECK(verdict_from({{"mismatches", none}}).mismatches.empty());
    if (!none.is_object()) CHECK(timing_from({{"built", none}}).built.empty());
  }
}

TEST_CASE("a journal keeps a few elements, none of them long") {
  json many = json::array();
  for (int i = 0; i < 100; ++i) {
    many.push_back({{"output", std::string(1'000, 'y')}, {"index", {i}}});
  }
  const Verdict verdict = verdict_from({{"mismatches", many}});
  CHECK(verdict.mismatches.size() == 8);
  CHECK(verdict.mismatches[7] == Mismatch{"", {7}, "", "", ""});
}

TEST_CASE("what kernels were built into is read by kernel and figure") {
  const json rows = {
      {"registers", 32}, {"local_bytes", 8}, {"odd", "text"}, {"half", 0.5}};
  const Timing timing =
      timing_from({{"candidate", {{"median_us", 4.5}, {"runs", 9}}},
                   {"bytes_floor", 1024},
                   {"back_to_back", {{"calls", 5}, {"us", {{"eager", 2.5}}}}},
                   {"built", {{"rows", rows}, {"no", 3}}}});
  CHECK(timing.candidate.median_us == 4.5);
  CHECK(timing.back_to_back_calls == 5);
  CHECK(timing.back_to_back_us ==
        std::map<std::string, double>{{"eager", 2.5}});
  CHECK(timing_from({{"back_to_back", nullptr}}).back_to_back_us.empty());
  CHECK(timing.built ==
        BuiltCode{{"rows", {{"local_bytes", 8}, {"registers", 32}}}});
  const json absurd_figures = {
      {"less", -1}, {"more", std::numeric_limits<std::int64_t>::max()}};
  const Timing absurd = timing_from({{"built", {{"k", absurd_figures}}}});
  CHECK(absurd.built ==
        BuiltCode{{"k", {{"less", 0}, {"more", 1'000'000'000'000}}}});
  json many = json::object();
  for (int i = 0; i < 100; ++i) many["k" + std::to_string(i)] = json::object();
  CHECK(timing_from({{"built", many}}).built.size() == 8);
}

}  // namespace
}  // namespace weft
