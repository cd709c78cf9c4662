// Reasons of a source's kernels, which the code generators of all targets
// record alike.
#pragma once

#include <string>
#include <vector>

#include "compiler/choices/reasons.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {

/// Why a nest's kernels have their tile, as the code that chose it says.
struct TileReason {
  std::string tile;
  std::string reason;
  std::vector<EstimatedOption> options{};
};

/// A reason for each of the nest's kernels, which have these names.
void add_reasons(std::vector<KernelReason>& reasons, const Nest& nest,
                 const std::vector<std::string>& kernels,
                 const TileReason& tile);

/// The same for what a module has launched since it had `before` launches.
template <typename Module>
void add_reasons(Module& module, const Nest& nest, std::size_t before,
                 const TileReason& tile) {
  std::vector<std::string> kernels;
  for (std::size_t i = before; i < module.launches.size(); ++i) {
    kernels.push_back(module.launches[i].kernel);
  }
  add_reasons(module.reasons, nest, kernels, tile);
}

}  // namespace weft
