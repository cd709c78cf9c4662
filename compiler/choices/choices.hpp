// Everything that decides only how fast kernels are, in one place: which of
// several right ways code generation takes where nothing is timed. No
// correctness requirement stands in this folder, so that any value may be
// tried.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/choices/contraction_choices.hpp"
#include "compiler/choices/cpu_choices.hpp"
#include "compiler/choices/cuda_choices.hpp"
#include "compiler/choices/fusion_choices.hpp"
#include "compiler/choices/loop_choices.hpp"
#include "compiler/choices/lowering_choices.hpp"
#include "compiler/choices/triton_choices.hpp"
#include "messages/result.hpp"

namespace weft {

struct Choices {
  FusionChoices fusion;
  ContractionChoices contraction;
  LoweringChoices lowering;
  LoopChoices loops;
  CpuChoices cpu;
  TritonChoices triton;
  CudaChoices cuda;
};

/// The defaults, but for the values that are given by name:
/// "cuda.windows.rows_max". An error names what there is no such choice of.
Result<Choices> choices_with(const std::map<std::string, double>& values);

/// One choice as it stands, for people.
struct NamedChoice {
  std::string name;
  double value = 0;
};

/// All of them, by theme.
std::vector<NamedChoice> list_choices(Choices choices = {});

}  // namespace weft
