// Reads graphs (docs/reference/graph.md) on stdin, one a line, and takes each
// through partitioning, lowering, scheduling and code generation for every
// target, on several devices. Prints a line of JSON for each: by target, how
// many variants there are, or why there are none. The random graphs are those
// of tests/python/random_graphs.py; test_graph_fuzzer.py runs this program, for
// long under the address sanitizer (WEFT_SANITIZE).
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "compiler/cpu/generate.hpp"
#include "compiler/cuda/generate.hpp"
#include "compiler/fusion/partition.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/targets.hpp"
#include "compiler/triton/generate.hpp"

namespace {

using weft::KernelSource;
using weft::Result;
using Sources = Result<std::vector<KernelSource>>;

weft::Subgraph subgraph_of(const weft::Graph& graph) {
  weft::Subgraph subgraph;
  subgraph.id = "sg_fuzz";
  subgraph.type = "fuzz";
  subgraph.graph = graph;
  return subgraph;
}

nlohmann::json told(const Sources& sources) {
  if (!sources) return {{"error", sources.error().message}};
  return {{"variants", sources->size()}};
}

/// The same graph, whole, for devices of two sizes and both ways to round.
nlohmann::json generate_all(const weft::Subgraph& subgraph) {
  nlohmann::json answer;
  weft::LoopFacts processor;
  processor.cores = 2;
  processor.vector_bytes = 64;
  weft::LoweringOptions products;
  products.contractions = true;
  answer["cpu"] = told(weft::generate_cpu(subgraph, processor, 16, products));
  for (const bool is_free : {false, true}) {
    weft::GenerateOptions options;
    options.variants_max = 16;
    options.free_rounding = is_free;
    weft::GpuFacts facts;
    facts.sms = is_free ? 4 : 132;
    facts.interpreted = is_free;
    const std::string how = is_free ? ", rounding freely" : "";
    answer["triton" + how] =
        told(weft::generate_triton(subgraph, facts, options));
    answer["cuda" + how] = told(weft::generate_cuda(subgraph, facts, options));
  }
  return answer;
}

/// As in a run: the passes and the cut, and what each of its pieces gives.
nlohmann::json generate_pieces(const weft::Graph& graph) {
  nlohmann::json answer;
  for (const weft::Target& target : weft::targets()) {
    const weft::Plan plan = weft::partition(graph, target);
    nlohmann::json& pieces = answer[std::string(target.name)] =
        nlohmann::json::array();
    for (const weft::Subgraph& piece : plan.subgraphs) {
      pieces.push_back(told(target.generate(piece, {}, {.variants_max = 2})));
    }
  }
  return answer;
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    nlohmann::json answer;
    const auto graph = weft::parse_graph(line);
    if (!graph) {
      answer["error"] = graph.error().message;
    } else {
      answer["whole"] = generate_all(subgraph_of(*graph));
      answer["pieces"] = generate_pieces(*graph);
    }
    std::cout << answer.dump() << std::endl;
  }
}
