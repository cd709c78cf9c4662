#include "compiler/loops/growing.hpp"

#include <algorithm>

namespace weft {
namespace {

/// False where there are more of the one than of the other.
bool add_growing(const std::vector<LoopVar>& at,
                 const std::vector<LoopVar>& there,
                 std::map<int, std::int64_t>& growing) {
  if (at.size() != there.size()) return false;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (at[i].extent != there[i].extent) {
      growing.emplace(at[i].id, there[i].extent);
    }
  }
  return true;
}

}  // namespace

std::optional<std::map<int, std::int64_t>> growing_variables(
    const Schedule& plan, const Schedule& other) {
  std::map<int, std::int64_t> growing;
  if (plan.nests.size() != other.nests.size()) return {};
  for (std::size_t i = 0; i < plan.nests.size(); ++i) {
    const Nest& nest = plan.nests[i];
    const Nest& there = other.nests[i];
    if (nest.stages.size() != there.stages.size() ||
        !add_growing(nest.outer, there.outer, growing)) {
      return {};
    }
    for (std::size_t s = 0; s < nest.stages.size(); ++s) {
      if (!add_growing(nest.stages[s].inner, there.stages[s].inner, growing)) {
        return {};
      }
    }
  }
  return growing;
}

bool grows(const Schedule& plan, const std::vector<LoopVar>& variables) {
  return std::ranges::any_of(
      variables, [&](const LoopVar& v) { return plan.growing.contains(v.id); });
}

std::int64_t usual_extent(const Schedule& plan,
                          const std::vector<LoopVar>& variables) {
  std::int64_t usual = 1;
  for (const LoopVar& v : variables) {
    const auto found = plan.growing.find(v.id);
    usual *= found == plan.growing.end() ? v.extent : found->second;
  }
  return usual;
}

}  // namespace weft
