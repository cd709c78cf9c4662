// What the scheduler makes of a graph for a GPU, for tests.
#pragma once

#include <doctest/doctest.h>

#include <utility>

#include "compiler/loops/schedule.hpp"
#include "compiler/lowering/lower.hpp"

namespace weft::testing {

inline Schedule planned_for_gpu(const Graph& graph,
                                std::int64_t whole_row = 16384,
                                const LoweringOptions& options = {}) {
  LoopFacts facts;
  facts.cores = 132;
  facts.whole_row = whole_row;
  facts.on_gpu = true;
  facts.recomputes = true;
  auto program = lower(graph, options);
  REQUIRE(program.has_value());
  return schedule(std::move(*program), facts);
}

}  // namespace weft::testing
