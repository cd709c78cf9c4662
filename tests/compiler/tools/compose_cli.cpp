// Reads a model's graph (docs/reference/graph.md) on stdin and prints the
// composed module of the problem file that is its argument, with a kernel for
// the processor wherever there is one. For tests that run composed modules from
// Python without verifying and timing each kernel.
#include <fstream>
#include <iostream>
#include <iterator>

#include "compiler/compose/compose.hpp"
#include "compiler/targets.hpp"

namespace {

std::string all_of(std::istream& stream) {
  return {std::istreambuf_iterator<char>(stream), {}};
}

int failed(const weft::Error& error) {
  std::cerr << error.message << "\n";
  return 1;
}

}  // namespace

int main(int, char** arguments) {
  const auto graph = weft::parse_graph(all_of(std::cin));
  if (!graph) return failed(graph.error());
  std::ifstream problem(arguments[1]);
  const weft::Target& target = weft::targets().front();
  const weft::Plan plan = weft::partition(*graph, target);
  std::map<std::string, weft::ComposedKernel> kernels;
  for (const weft::Subgraph& subgraph : plan.subgraphs) {
    const auto sources = target.generate(subgraph, {}, {.variants_max = 1});
    if (!sources) return failed(sources.error());
    kernels[subgraph.id] = {sources->front().text, sources->front().variant,
                            &target};
  }
  const auto text = weft::compose_source(all_of(problem), plan, kernels);
  if (!text) return failed(text.error());
  std::cout << *text;
}
