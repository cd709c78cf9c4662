#include "compiler/loops/kernel_reasons.hpp"

#include <set>

namespace weft {
namespace {

/// The calls that the nest's stages came from, each once, in order.
std::string calls_of(const Nest& nest) {
  std::set<std::string> seen;
  std::string text;
  for (const Stage& stage : nest.stages) {
    if (stage.note.empty() || !seen.insert(stage.note).second) continue;
    text += (text.empty() ? "" : ", ") + stage.note;
  }
  return text;
}

}  // namespace

void add_reasons(std::vector<KernelReason>& reasons, const Nest& nest,
                 const std::vector<std::string>& kernels,
                 const TileReason& tile) {
  const std::string calls = calls_of(nest);
  for (const std::string& kernel : kernels) {
    reasons.push_back(
        {kernel, calls, nest.reason, tile.tile, tile.reason, tile.options});
  }
}

}  // namespace weft
