// Prints a schedule as C++: the loop nests of one kernel.
#pragma once

#include <string>
#include <vector>

#include "compiler/choices/cpu_variants.hpp"
#include "compiler/choices/reasons.hpp"
#include "compiler/loops/schedule.hpp"

namespace weft {

/// A source, and why each of its loop nests is as it is.
struct CpuText {
  std::string text;
  std::vector<KernelReason> reasons;
};

/// The whole source, prelude included. `title` goes into its first comment.
CpuText print_cpu(const Schedule& plan, const CpuVariant& variant,
                  const LoopFacts& facts, const std::string& title);

}  // namespace weft
