// A role with effects, for tests: its leases are granted at once.
#pragma once

#include "actors/extractor.hpp"
#include "compiler/graph/subgraph.hpp"
#include "compiler/targets.hpp"
#include "tests/actors/role_fixture.hpp"
#include "tests/compiler/graph_builder.hpp"

namespace weft {

template <class R>
struct RunFixture : RoleFixture<R> {
  /// What the role sent, and what it sent once its leases were granted.
  std::vector<Outgoing> say(const Address& from, Message message) {
    std::vector<Outgoing> all = this->give(from, std::move(message));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto* lease = std::get_if<LeaseRequest>(&all[i].message);
      if (!lease) continue;
      for (Outgoing& next :
           this->give(address::broker, LeaseGranted{lease->ticket})) {
        all.push_back(std::move(next));
      }
    }
    return all;
  }
};

/// relu(x) @ x, then tanh: two subgraphs with an extern between them.
inline Graph two_piece_graph() {
  const TensorType square = dense({64, 64});
  GraphBuilder builder;
  builder.input("x", square)
      .call("a", "relu", {"x"}, square)
      .call("b", "mm", {"a", "x"}, square)
      .call("c", "tanh", {"b"}, square)
      .outputs({"c"});
  return builder.graph;
}

inline const char* const small_problem =
    "import torch\n"
    "import torch.nn as nn\n"
    "class Model(nn.Module):\n"
    "    def forward(self, x):\n"
    "        return torch.tanh(torch.relu(x) @ x)\n"
    "def get_inputs():\n"
    "    return [torch.randn(64, 64)]\n"
    "def get_init_inputs():\n"
    "    return []\n";

inline RunStart small_run(Blobs& blobs) {
  RunStart start;
  start.problem_name = "small.py";
  start.problem = blobs.put(small_problem);
  start.machine.cores = 2;
  start.options.jobs = 1;
  start.seeks_products = true;
  return start;
}

/// How the extractor cuts that graph.
inline Plan plan_of(RunFixture<Extractor>& extractor, const RunStart& start,
                    const Graph& graph) {
  const auto capture =
      single<CaptureRequest>(extractor.say(address::user, start));
  const std::string blob = extractor.blobs.put(graph_to_json(graph));
  const auto files = single<WriteFilesRequest>(extractor.say(
      address::capture, CaptureReply{capture.effect, {}, blob, 9}));
  const auto dispatch = single<Dispatch>(
      extractor.say(address::files, WriteFilesReply{files.effect, {}}));
  const auto plan = parse_plan(*extractor.blobs.get(dispatch.plan));
  REQUIRE(plan.has_value());
  return *plan;
}

}  // namespace weft
