#include "actors/device.hpp"

#include <algorithm>

#include "compiler/targets.hpp"

namespace weft {
namespace {

/// Inputs and results of three processes, and those of float64
/// (python/weft/device/gpu_lock.py, ROOM_COPIES).
constexpr std::int64_t kCopies = 6;
/// Contexts of oracle, candidate and baseline, with PyTorch's modules: some
/// 500 MiB each on an H100.
constexpr std::int64_t kContextsBytes = std::int64_t{3} << 29;
/// Of a UUID, for people: "GPU-8a5c31f0".
constexpr std::size_t kUuidShown = 12;

}  // namespace

std::string location_name(const Location& location) {
  const std::string node = node_of(location);
  const std::string device = device_of(location).substr(0, kUuidShown);
  if (device.empty()) return node.empty() ? "the head" : node;
  return node.empty() ? device : device + " of " + node;
}

Location location_of_gpu(const Gpu& gpu) { return "/" + gpu.uuid; }

bool knows_locations(const RunStart& run) { return run.vocabulary >= 2; }

bool may_gain_locations(const RunStart& run) {
  return run.vocabulary >= kLaterLocationsVocabulary &&
         !run.device_class.device.empty();
}

std::vector<Location> head_locations(const RunStart& run) {
  if (!knows_locations(run)) return {};
  std::vector<Location> locations;
  for (const Gpu& gpu : run.machine.gpus) {
    locations.push_back(gpu.uuid.empty() ? Location() : location_of_gpu(gpu));
  }
  if (locations.empty()) locations.emplace_back();
  return locations;
}

std::int64_t edge_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  const auto add = [&](const Node& node) {
    for (const auto& type : node.values) {
      if (type) bytes += element_count(*type) * element_bytes(type->dtype);
    }
  };
  for (const Node& node : graph.nodes) {
    const bool is_output =
        std::ranges::find(graph.outputs, node.name) != graph.outputs.end();
    if (node.kind != NodeKind::call || is_output) add(node);
  }
  return bytes;
}

std::int64_t device_bytes(const Graph& graph) {
  std::int64_t edges = edge_bytes(graph);
  if (graph.symbolic_shapes
          .is_symbolic()) {  // it is judged at larger sizes than its own
    const auto largest =
        graph_at(graph, judged_sizes(graph.symbolic_shapes.sizes).back());
    if (largest) edges = edge_bytes(*largest);
  }
  return kCopies * edges + kContextsBytes;
}

std::string device_resource(const Machine& machine) {
  return machine.gpus.empty() ? "cpu" : "gpu";
}

bool is_for_gpu(const RunOptions& options) {
  const Target* target = find_target(options.target);
  return target && target->on_gpu;
}

bool can_time(const RunOptions& options, const Machine& machine) {
  return !is_for_gpu(options) || !machine.gpus.empty();
}

bool times_module(const RunOptions& options, const Machine& machine) {
  return options.final_timing_ms > 0 && can_time(options, machine);
}

}  // namespace weft
