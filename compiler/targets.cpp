#include "compiler/targets.hpp"

#include <algorithm>

#include "compiler/cpu/generate.hpp"
#include "compiler/cuda/generate.hpp"
#include "compiler/python/inductor.hpp"
#include "compiler/python/target.hpp"
#include "compiler/triton/generate.hpp"

namespace weft {
namespace {

/// Where there is a GPU, CUDA's kernels and Triton's compete: products are
/// Triton's alone, rows that fit on the chip are faster in CUDA.
Target gpu_target() {
  Target target = triton_target();
  target.name = "gpu";
  target.needs_gpu = true;
  target.needs_nvrtc = true;
  target.members = {"cuda", "triton"};
  return target;
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> list = {
      cpu_target(),          triton_target(),        cuda_target(),
      gpu_target(),          python_target(),        inductor_target(),
      inductor_own_target(), inductor_graph_target()};
  return list;
}

std::string any_size_targets() {
  std::string names;
  for (const Target& target : targets()) {
    if (!target.takes_any_size) continue;
    names += (names.empty() ? "" : ",") + std::string(target.name);
  }
  return names;
}

const Target* find_target(std::string_view name) {
  const auto found = std::ranges::find(targets(), name, &Target::name);
  return found == targets().end() ? nullptr : &*found;
}

std::string_view automatic_target(bool has_gpu, bool has_nvrtc) {
  if (!has_gpu) return "cpu";
  return has_nvrtc ? "gpu" : "triton";
}

Result<std::vector<TargetSource>> generate_sources(
    const Target& target, const Subgraph& subgraph, const Machine& machine,
    const GenerateOptions& options) {
  std::vector<std::string_view> members = target.members;
  if (members.empty()) members = {target.name};
  std::vector<std::vector<KernelSource>> all;
  Error error;
  for (const std::string_view name : members) {
    const Target& member = *find_target(name);
    auto own =
        member.takes_any_size || !subgraph.graph.symbolic_shapes.is_symbolic()
            ? member.generate(subgraph, machine, options)
            : std::vector<KernelSource>();
    if (!own) error = own.error();
    all.push_back(own ? std::move(*own) : std::vector<KernelSource>());
  }
  std::vector<TargetSource> sources;
  const auto most = static_cast<std::size_t>(std::max(0, options.variants_max));
  for (std::size_t turn = 0; turn < most; ++turn) {
    for (std::size_t i = 0; i < all.size() && sources.size() < most; ++i) {
      if (turn >= all[i].size()) continue;
      sources.push_back({members[i], std::move(all[i][turn])});
    }
  }
  if (sources.empty() && !error.message.empty()) {
    return std::unexpected(error);
  }
  return sources;
}

}  // namespace weft
