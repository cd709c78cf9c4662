#include "compiler/compose/sized_sources.hpp"

#include <algorithm>

#include "compiler/text/common_text.hpp"

namespace weft {

Result<std::vector<KernelSource>> sources_for_sizes(
    const Subgraph& subgraph,
    const std::function<Result<std::vector<KernelSource>>(const Subgraph&)>&
        generate) {
  std::map<std::int64_t, std::vector<KernelSource>> all;
  for (const std::int64_t size : sample_sizes(subgraph.graph)) {
    auto graph = graph_at(subgraph.graph, size);
    if (!graph) return std::unexpected(graph.error());
    Subgraph at = subgraph;
    at.graph = std::move(*graph);
    auto sources = generate(at);
    if (!sources) return std::unexpected(sources.error());
    all[size] = std::move(*sources);
  }
  std::vector<KernelSource> common;
  Error error{ErrorCode::wrong_input, "each size has other variants"};
  for (const KernelSource& first : all.begin()->second) {
    std::map<std::int64_t, std::string> texts;
    for (const auto& [size, sources] : all) {
      const auto found =
          std::ranges::find(sources, first.variant, &KernelSource::variant);
      if (found != sources.end()) texts[size] = found->text;
    }
    if (texts.size() != all.size()) continue;
    auto text = common_text(texts, kKernelSize);
    if (text) {
      common.push_back({first.variant, std::move(*text)});
    } else {
      error = text.error();
    }
  }
  if (!common.empty()) return common;
  return fail(error.code, "no code for any size: " + error.message);
}

Result<std::string> python_for_sizes(
    const Graph& graph,
    const std::function<Result<std::string>(std::int64_t)>& print) {
  if (graph.growth.size == 0) return print(0);
  std::map<std::int64_t, std::string> texts;
  for (const std::int64_t size : sample_sizes(graph)) {
    auto text = print(size);
    if (!text) return text;
    texts[size] = std::move(*text);
  }
  return common_text(texts, kPythonSize);
}

}  // namespace weft
