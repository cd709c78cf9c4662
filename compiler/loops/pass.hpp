// Passes: stages of a nest that share one walk over their inner variables.
#pragma once

#include <string>
#include <vector>

#include "compiler/loops/schedule.hpp"

namespace weft {

struct Pass {
  std::vector<const Stage*> stages;
  std::vector<LoopVar> inner;
  std::vector<const Stage*> reductions() const {
    std::vector<const Stage*> list;
    for (const Stage* stage : stages) {
      if (stage->is_reduction) list.push_back(stage);
    }
    return list;
  }
  bool has_reductions() const { return !reductions().empty(); }
  /// The scan of a pass; the pass's other stages may read what it comes to.
  const Stage* scan() const {
    return stages.front()->is_scan ? stages.front() : nullptr;
  }
};

/// The stages of a nest in order, those joined that do not need each other.
std::vector<Pass> passes_of(const Program& program, const Nest& nest);

}  // namespace weft
