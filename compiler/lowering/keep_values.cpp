#include "compiler/lowering/keep_values.hpp"

#include <algorithm>
#include <map>

#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/loops/scalar.hpp"

namespace weft {
namespace {

/// Calls that compute one tensor of numbers, element by element or almost so.
bool can_materialize(const Node& node) {
  const std::string& target = node.target;
  return node.kind == NodeKind::call && target != "getitem" &&
         node.values.size() == 1 && node.values[0] &&
         is_float(node.values[0]->dtype) && !is_view(target) &&
         !is_copy(target) && !is_fill(target) && !is_product(target);
}

std::int64_t elements_of(const Node& node) {
  return node.values.empty() || !node.values[0]
             ? 0
             : weft::elements_of(node.values[0]->shape);
}

/// How many calls, and results of the graph, read each value or a view of it;
/// a call of several results walks more than once over what it reads, and so
/// does one that reads a smaller tensor's elements for several of its own.
std::map<std::string, int> readers_of(const Graph& graph) {
  std::map<std::string, int> readers;
  for (const std::string& output : graph.outputs) ++readers[output];
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->kind != NodeKind::call) continue;
    const bool passes_on = is_view(node->target) || node->target == "getitem";
    const int reads = passes_on ? readers[node->name] : node->is_tuple ? 2 : 1;
    for_each_ref(*node, [&](const std::string& name) {
      const Node* read = graph.find(name);
      const bool spreads = reads > 0 && read != nullptr &&
                           elements_of(*read) < elements_of(*node);
      readers[name] += spreads ? std::max(reads, 2) : reads;
    });
  }
  return readers;
}

}  // namespace

std::set<std::string> worth_keeping(const Graph& graph,
                                    const ScheduleFor& schedule_of,
                                    const DeviceRates& rates,
                                    const LoweringChoices& choices) {
  constexpr int kReadersMin = 2;
  std::set<std::string> materialized;
  const Schedule as_written = schedule_of(materialized);
  if (as_written.nests.size() < 2) return materialized;
  double least_us = moving_us(as_written, rates);
  auto readers = readers_of(graph);
  int trials = 0;
  for (const Node& node : graph.nodes) {
    if (!can_materialize(node) || readers[node.name] < kReadersMin) continue;
    if (++trials > choices.kept_trials_max) break;
    std::set<std::string> more = materialized;
    more.insert(node.name);
    const double us = moving_us(schedule_of(more), rates);
    if (us + choices.kept_gain_us >= least_us) continue;
    least_us = us;
    materialized = std::move(more);
  }
  return materialized;
}

}  // namespace weft
