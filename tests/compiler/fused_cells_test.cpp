// PyTorch's recurrent cells, one call of its library's for all steps, are
// never taken apart, nor put into a kernel of somebody's.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/fusion/regroup.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/targets.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {
namespace {

const TensorType kRows = dense({2, 7, 16});

/// relu, a cell over seven steps, tanh.
Graph recurrent(const std::string& cell) {
  GraphBuilder b;
  b.input("x", kRows).input("h", dense({1, 2, 16}));
  b.placeholder(NodeKind::parameter, "w", dense({64, 16}));
  b.call("r", "relu", {"x"}, kRows);
  b.tuple("c", cell + ".input", {"r", "h", "w"}, {kRows, dense({1, 2, 16})});
  b.getitem("y", "c", 0);
  b.call("t", "tanh", {"y"}, kRows).outputs({"t"});
  return b.graph;
}

bool holds_cell(const Plan& plan) {
  return std::ranges::any_of(plan.placements, [](const Placement& placement) {
    return std::ranges::count(placement.nodes, "c") > 0;
  });
}

}  // namespace

TEST_CASE("a fused recurrent cell stays one call of the framework's") {
  for (const char* cell : {"lstm", "gru", "rnn_tanh", "rnn_relu"}) {
    const Graph graph = recurrent(cell);
    REQUIRE(check_graph(graph));
    for (const Target& target : targets()) {
      for (const auto others :
           {CutOptions::Others::none, CutOptions::Others::separate,
            CutOptions::Others::fused}) {
        for (const bool no_extern : {false, true}) {
          CutOptions cut;
          cut.others = others;
          cut.no_extern = no_extern;
          const Plan plan = partition_candidates(graph, target, cut);
          CHECK_FALSE(holds_cell(plan));
          CHECK(std::ranges::none_of(plan.others, holds_cell));
          CHECK(extern_counts(plan).at(std::string("aten.") + cell +
                                       ".input") == 1);
          // What is around it is ours all the same.
          if (target.is_for_runs) CHECK(plan.placements.size() == 2);
        }
      }
    }
    const Plan plan = partition(graph, targets().front());
    CHECK_FALSE(regroup(plan, {{"r", "c", "t"}}).has_value());
  }
}

}  // namespace weft
