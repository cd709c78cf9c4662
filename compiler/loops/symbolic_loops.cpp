#include "compiler/loops/symbolic_loops.hpp"

#include <algorithm>

namespace weft {
namespace {

/// False where there are more of the one than of the other.
bool add_symbolic(const std::vector<LoopVar>& at,
                  const std::vector<LoopVar>& there,
                  std::map<int, std::int64_t>& symbolic_loops) {
  if (at.size() != there.size()) return false;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (at[i].extent != there[i].extent) {
      symbolic_loops.emplace(at[i].id, there[i].extent);
    }
  }
  return true;
}

}  // namespace

std::optional<std::map<int, std::int64_t>> find_symbolic_loops(
    const Schedule& plan, const Schedule& other) {
  std::map<int, std::int64_t> symbolic_loops;
  if (plan.nests.size() != other.nests.size()) return {};
  for (std::size_t i = 0; i < plan.nests.size(); ++i) {
    const Nest& nest = plan.nests[i];
    const Nest& there = other.nests[i];
    if (nest.stages.size() != there.stages.size() ||
        !add_symbolic(nest.outer, there.outer, symbolic_loops)) {
      return {};
    }
    for (std::size_t s = 0; s < nest.stages.size(); ++s) {
      if (!add_symbolic(nest.stages[s].inner, there.stages[s].inner,
                        symbolic_loops)) {
        return {};
      }
    }
  }
  return symbolic_loops;
}

bool is_symbolic(const Schedule& plan, const std::vector<LoopVar>& variables) {
  return std::ranges::any_of(variables, [&](const LoopVar& v) {
    return plan.symbolic_loops.contains(v.id);
  });
}

std::int64_t size_hint(const Schedule& plan,
                       const std::vector<LoopVar>& variables) {
  std::int64_t hint = 1;
  for (const LoopVar& v : variables) {
    const auto found = plan.symbolic_loops.find(v.id);
    hint *= found == plan.symbolic_loops.end() ? v.extent : found->second;
  }
  return hint;
}

}  // namespace weft
