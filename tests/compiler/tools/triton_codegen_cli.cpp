// Reads a graph (docs/reference/graph.md) on stdin, one a line, and prints for
// each a line of JSON: the variants' Triton sources and the Python modules
// around them, or why there are none. For tests that run generated kernels from
// Python. Arguments: multiprocessors, most variants, bytes of shared memory,
// bytes that memory moves in a nanosecond.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "compiler/compose/compose.hpp"
#include "compiler/targets.hpp"
#include "compiler/triton/generate.hpp"

int main(int count, char** arguments) {
  weft::GpuFacts facts;
  facts.sms = count > 1 ? std::stoi(arguments[1]) : 4;
  const int variants_max = count > 2 ? std::stoi(arguments[2]) : 16;
  if (count > 3) facts.shared_bytes = std::stoll(arguments[3]);
  if (count > 4) facts.rates.memory_gbps = std::stod(arguments[4]);
  std::string line;
  while (std::getline(std::cin, line)) {
    nlohmann::json answer;
    const auto graph = weft::parse_graph(line);
    if (!graph) {
      answer["error"] = graph.error().message;
      std::cout << answer.dump() << "\n";
      continue;
    }
    weft::Subgraph subgraph;
    subgraph.id = "sg_test";
    subgraph.type = "test";
    subgraph.graph = *graph;
    const auto sources =
        weft::generate_triton(subgraph, facts, {.variants_max = variants_max});
    if (!sources) {
      answer["error"] = sources.error().message;
    } else {
      for (const auto& source : *sources) {
        const weft::ComposedKernel kernel = {source.text, source.variant,
                                             weft::find_target("triton")};
        answer["variants"].push_back(
            {{"variant", source.variant},
             {"text", source.text},
             {"module", weft::kernel_module_source(subgraph, kernel)}});
      }
    }
    std::cout << answer.dump() << "\n";
  }
}
