// Reads a graph (docs/reference/graph.md) on stdin, one a line, and prints for
// each a line of JSON: the variants' sources, or why there are none. For tests
// that build and run generated kernels from Python. Arguments: cores, bytes of
// a vector, most variants, and then what else is to be lowered: "contractions".
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "compiler/cpu/generate.hpp"

int main(int count, char** arguments) {
  weft::LoopFacts facts;
  facts.cores = count > 1 ? std::stoi(arguments[1]) : 2;
  facts.vector_bytes = count > 2 ? std::stoi(arguments[2]) : 64;
  const int variants_max = count > 3 ? std::stoi(arguments[3]) : 16;
  weft::LoweringOptions options;
  for (int i = 4; i < count; ++i) {
    const std::string_view option = arguments[i];
    if (option == "contractions") options.contractions = true;
  }
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
        weft::generate_cpu(subgraph, facts, variants_max, options);
    if (!sources) {
      answer["error"] = sources.error().message;
    } else {
      for (const auto& source : *sources) {
        answer["variants"].push_back(
            {{"variant", source.variant}, {"text", source.text}});
      }
      answer["flags"] = weft::cpu_build_flags();
      answer["bytes_floor"] = weft::bytes_floor(subgraph);
    }
    std::cout << answer.dump() << "\n";
  }
}
