#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/targets.hpp"

namespace weft {
namespace {

TEST_CASE("every target is found by its name, and no other name is") {
  for (const Target& target : targets()) {
    CHECK(find_target(target.name) == &target);
  }
  CHECK(find_target("cpu") != nullptr);
  CHECK(find_target("abacus") == nullptr);
}

TEST_CASE("no two targets share a name") {
  for (const Target& target : targets()) {
    CHECK(std::ranges::count(targets(), target.name, &Target::name) == 1);
  }
}

TEST_CASE("a target's build makes its built file from its source file") {
  for (const Target& target : targets()) {
    const auto command = target.build_command(
        {.cxx = "the-compiler", .python = "the-python", .arch = "sm_90"});
    const auto has = [&](std::string_view word) {
      return std::ranges::find(command, word) != command.end();
    };
    CHECK(has(target.source_file));
    CHECK(has(target.built_file));
    if (target.build_flags == nullptr) continue;
    for (const std::string& flag : target.build_flags()) CHECK(has(flag));
  }
}

}  // namespace
}  // namespace weft
