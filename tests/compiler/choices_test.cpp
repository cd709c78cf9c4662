#include "compiler/choices/choices.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "compiler/choices/choice_rows.hpp"

using namespace weft;

TEST_CASE("a choice is overridden by its name, and no other is") {
  const auto choices = choices_with(
      {{"cuda.windows.rows_max", 5}, {"contraction.our_product.most", 0.25}});
  REQUIRE(choices.has_value());
  CHECK(choices->cuda.windows.rows_max == 5);
  CHECK(choices->contraction.our_product.most == 0.25);
  std::size_t changed = 0;
  const auto before = list_choices(), after = list_choices(*choices);
  REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    changed += before[i].value != after[i].value;
  }
  CHECK(changed == 2);
}

TEST_CASE("every choice has a name of its own, which overrides it") {
  std::set<std::string> names;
  for (const NamedChoice& one : list_choices()) {
    CHECK(names.insert(one.name).second);
    CAPTURE(one.name);
    CHECK(one.least <= one.value);
    CHECK(one.value <= one.most);
    CHECK_FALSE(one.unit.empty());
    CHECK_FALSE(one.source.empty());
    for (const double value : {one.least, one.most}) {
      const auto choices = choices_with({{one.name, value}});
      REQUIRE(choices.has_value());
      for (const NamedChoice& now : list_choices(*choices)) {
        if (now.name == one.name) CHECK(now.value == value);
      }
    }
  }
  CHECK(names.size() > 70);
}

TEST_CASE("every field of the choices has a row") {
  Choices choices;
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> fields;  // start, end
  const VisitChoice add = [&](const ChoiceRow&, ChoiceField field) {
    std::visit(
        [&](auto* value) {
          const auto start = reinterpret_cast<const std::byte*>(value) -
                             reinterpret_cast<const std::byte*>(&choices);
          fields.emplace_back(start, start + sizeof *value);
        },
        field);
  };
  visit_fusion(choices.fusion, add);
  visit_contraction(choices.contraction, add);
  visit_lowering(choices.lowering, add);
  visit_loops(choices.loops, add);
  visit_cpu(choices.cpu, add);
  visit_triton(choices.triton, add);
  visit_cuda(choices.cuda, add);
  std::ranges::sort(fields);
  const auto aligned = [](std::ptrdiff_t at, std::ptrdiff_t to) {
    return (at + to - 1) / to * to;
  };
  // Only padding is between two fields: before one, or at the end of a struct.
  std::ptrdiff_t last = 0;
  for (const auto& [start, end] : fields) {
    CAPTURE(start);
    const bool follows = start == aligned(last, end - start) ||
                         start == aligned(last, alignof(Choices));
    CHECK(follows);
    last = end;
  }
  CHECK(aligned(last, alignof(Choices)) == sizeof(Choices));
}

TEST_CASE("what is no choice, or no value of one, is named") {
  const auto says = [](const std::string& name, double value,
                       const std::string& part) {
    const auto choices = choices_with({{name, value}});
    return !choices && choices.error().code == ErrorCode::wrong_input &&
           choices.error().message.contains(part);
  };
  CHECK(
      says("cuda.windows", 1, "no choice 'cuda.windows'; near to it: cuda.w"));
  CHECK(says("fusion.loop_step_min", 1, "near to it: fusion.loop_steps_min"));
  CHECK(says("cuda.rows.sms_per_lost_sm", 0, "is from 1 to 1048576"));
  CHECK(says("cuda.windows.rows_max", 1.5, "whole number"));
  CHECK(says("cuda.windows.rows_max", -1, "is from 1 to 64 rows"));
}
