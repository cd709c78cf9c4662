// Everything that decides only how fast kernels are, in one place: which of
// several right ways code generation takes where nothing is timed. No
// correctness requirement stands in this folder, so that any value may be
// tried.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
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
/// "cuda.windows.rows_max". wrong_input names what there is no such choice of,
/// and what is near to it; or the bounds of what is outside.
Result<Choices> choices_with(const std::map<std::string, double>& values);

/// One choice as it stands, for people.
struct NamedChoice {
  std::string name;
  std::string unit;
  std::string source;  ///< "H200, 2026-11-21"
  double value = 0;
  double least = 0;  ///< that it may be set to
  double most = 0;
  bool is_whole = true;
};

/// A value as it would be typed: "8", "0.75".
std::string choice_text(double value);

/// "cuda.windows.rows_max=8". wrong_input: it is not of that form, or no such
/// choice or value, as choices_with() says.
Result<std::pair<std::string, double>> parse_choice(std::string_view text);

/// All of them, by theme.
std::vector<NamedChoice> list_choices(Choices choices = {});

}  // namespace weft
