#include "compiler/compose/gradient_source.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/text/python_text.hpp"
#include "embedded/compiler/compose/python/with_gradient.py"

namespace weft {

namespace {

/// The nodes that the results are computed from.
std::set<std::string> sources_of_results(const Graph& model) {
  std::set<std::string> found(model.outputs.begin(), model.outputs.end());
  for (auto node = model.nodes.rbegin(); node != model.nodes.rend(); ++node) {
    if (!found.contains(node->name)) continue;
    for_each_ref(*node, [&](const std::string& name) { found.insert(name); });
  }
  return found;
}

std::string set_of(const std::vector<std::string>& names) {
  std::string text = "frozenset((";
  for (const std::string& name : names) text += python_string(name) + ", ";
  return text + "))\n";
}

}  // namespace

std::string gradient_source(const Graph& model,
                            const std::map<std::string, std::string>& read) {
  std::vector<std::string> written;
  std::vector<std::string> read_and_written;
  const std::set<std::string> sources = sources_of_results(model);
  for (const Mutation& mutation : model.mutations) {
    written.push_back(mutation.target);
    const auto node = read.find(mutation.target);
    if (node != read.end() && sources.contains(node->second)) {
      read_and_written.push_back(mutation.target);
    }
  }
  const bool draws = std::ranges::any_of(model.nodes, [](const Node& node) {
    return node.kind == NodeKind::call && is_random(node.target);
  });
  const std::string unchanged = !model.parts.empty() ? "_weft_as_captured"
                                : model.training
                                    ? "lambda model: model.training"
                                    : "lambda model: not model.training";
  return "_weft_written = " + set_of(written) +
         "_weft_read_and_written = " + set_of(read_and_written) +
         "_weft_draws = " + (draws ? "True" : "False") +
         "\n_weft_unchanged = " + unchanged + "\n" +
         std::string(embedded::compiler_compose_python_with_gradient);
}

}  // namespace weft
