// What is said of every choice beside its value: its name, unit, bounds and
// source. A theme's rows are listed once; reading, overriding and printing all
// walk them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <variant>

#include "compiler/choices/choices.hpp"

namespace weft {

/// Values outside are no experiment: a divisor of zero, a loop that is written
/// out a million times.
struct ChoiceBounds {
  double least = 0;
  double most = 0;
};

struct ChoiceRow {
  std::string_view name;
  std::string_view unit;
  ChoiceBounds bounds;
  std::string_view source;  ///< datasheet, measurement with date, or rule
};

/// From or up to where something is done: any size.
inline constexpr ChoiceBounds kAnySize = {0, 0x1p40};
/// How many at a time.
inline constexpr ChoiceBounds kSomeAtATime = {1, 1024};
/// How many, which takes host time or code for each.
inline constexpr ChoiceBounds kSmallCount = {1, 64};
inline constexpr ChoiceBounds kDivisor = {1, 0x1p20};
inline constexpr ChoiceBounds kShare = {0.001, 1};

inline constexpr std::string_view kH200Nov21 = "H200, 2026-11-21";
inline constexpr std::string_view kH200Nov22 = "H200, 2026-11-22";
inline constexpr std::string_view kH200Nov23 = "H200, 2026-11-23";
inline constexpr std::string_view kH200Nov25 = "H200, 2026-11-25";
inline constexpr std::string_view kH200Nov29 = "H200, 2026-11-29";

using ChoiceField = std::variant<int*, std::int64_t*, std::size_t*, double*>;
using VisitChoice =
    std::function<void(const ChoiceRow& row, ChoiceField field)>;

void visit_fusion(FusionChoices& choices, const VisitChoice& visit);
void visit_contraction(ContractionChoices& choices, const VisitChoice& visit);
void visit_lowering(LoweringChoices& choices, const VisitChoice& visit);
void visit_loops(LoopChoices& choices, const VisitChoice& visit);
void visit_cpu(CpuChoices& choices, const VisitChoice& visit);
void visit_triton(TritonChoices& choices, const VisitChoice& visit);
void visit_cuda(CudaChoices& choices, const VisitChoice& visit);

}  // namespace weft
