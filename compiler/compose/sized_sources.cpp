#include "compiler/compose/sized_sources.hpp"

#include <algorithm>

#include "compiler/text/common_text.hpp"

namespace weft {
namespace {

constexpr std::string_view kPythonSizes[] = {"_weft_batch", "_weft_sequence"};

}  // namespace

std::span<const std::string_view> kernel_sizes(std::size_t symbols) {
  return std::span(kSizeNames).first(symbols);
}

std::span<const std::string_view> python_sizes(std::size_t symbols) {
  return std::span(kPythonSizes).first(symbols);
}

std::string size_lines(
    const Graph& graph, const std::string& in,
    const std::function<std::string(const SizeSource&)>& dim) {
  const auto sources = size_sources(graph);
  if (!sources) return "";
  std::string text;
  const auto names = python_sizes(graph.symbolic_shapes.sizes.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const SizeSource& source = (*sources)[i];
    text += in + std::string(names[i]) + " = " +
            (source.node.empty()
                 ? "1"
                 : dim(source) + " // " + std::to_string(source.divisor)) +
            "\n";
  }
  return text;
}

Result<std::vector<KernelSource>> sources_for_sizes(
    const Subgraph& subgraph,
    const std::function<Result<std::vector<KernelSource>>(const Subgraph&)>&
        generate) {
  std::map<Sizes, std::vector<KernelSource>> all;
  for (const Sizes& sizes : sample_sizes(subgraph.graph)) {
    auto graph = graph_at(subgraph.graph, sizes);
    if (!graph) return std::unexpected(graph.error());
    Subgraph at = subgraph;
    at.graph = std::move(*graph);
    auto sources = generate(at);
    if (!sources) return std::unexpected(sources.error());
    all[sizes] = std::move(*sources);
  }
  std::vector<KernelSource> common;
  Error error{ErrorCode::wrong_input, "each size has other variants"};
  for (const KernelSource& first : all.begin()->second) {
    std::map<Sizes, std::string> texts;
    for (const auto& [sizes, sources] : all) {
      const auto found =
          std::ranges::find(sources, first.variant, &KernelSource::variant);
      if (found != sources.end()) texts[sizes] = found->text;
    }
    if (texts.size() != all.size()) continue;
    auto text = common_text(
        texts, kernel_sizes(subgraph.graph.symbolic_shapes.sizes.size()));
    if (text) {
      common.push_back({first.variant, std::move(*text), first.reasons});
    } else {
      error = text.error();
    }
  }
  if (!common.empty()) return common;
  return fail(error.code, "no code for any size: " + error.message);
}

Result<std::string> python_for_sizes(
    const Graph& graph,
    const std::function<Result<std::string>(const Sizes&)>& print) {
  if (graph.symbolic_shapes.sizes.empty()) return print({});
  std::map<Sizes, std::string> texts;
  for (const Sizes& sizes : sample_sizes(graph)) {
    auto text = print(sizes);
    if (!text) return text;
    texts[sizes] = std::move(*text);
  }
  return common_text(texts, python_sizes(graph.symbolic_shapes.sizes.size()));
}

}  // namespace weft
