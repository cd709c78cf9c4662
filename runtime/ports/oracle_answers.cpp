#include "runtime/ports/oracle_answers.hpp"

#include <algorithm>
#include <string>

namespace weft {
namespace {

using nlohmann::json;

/// What a journal keeps of evidence. An oracle tells no more; one of another
/// version, on another machine, might.
constexpr std::size_t kMismatchesMax = 8;
constexpr std::size_t kKernelsMax = 8;
constexpr std::size_t kFiguresMax = 16;
constexpr std::int64_t kFigureMax = 1'000'000'000'000;
constexpr std::size_t kTextMax = 100;

NearEager near_eager_from(const json& told) {
  if (!told.is_object()) return {};
  return {told.value("outcome", ""),        told.value("reason", ""),
          told.value("draws", 0),           told.value("max_difference", 0.0),
          told.value("tolerance", 0.0),     told.value("compiled", ""),
          told.value("compiled_reason", "")};
}

/// A text of that field, or nothing: evidence never fails a reply.
std::string text_from(const json& told, const char* field) {
  const auto found = told.find(field);
  if (found == told.end() || !found->is_string()) return "";
  std::string text = found->get<std::string>();
  if (text.size() > kTextMax) text.clear();
  return text;
}

std::vector<Mismatch> mismatches_from(const json& told) {
  std::vector<Mismatch> mismatches;
  if (!told.is_array()) return mismatches;
  for (const json& one : told) {
    if (!one.is_object() || mismatches.size() == kMismatchesMax) continue;
    Mismatch made;
    made.output = text_from(one, "output");
    made.expected = text_from(one, "expected");
    made.got = text_from(one, "got");
    made.error = text_from(one, "error");
    for (const json& at : one.value("index", json::array())) {
      if (at.is_number_integer()) made.index.push_back(at.get<std::int64_t>());
    }
    mismatches.push_back(std::move(made));
  }
  return mismatches;
}

BuiltCode built_from(const json& told) {
  BuiltCode built;
  if (!told.is_object()) return built;
  for (const auto& [kernel, figures] : told.items()) {
    const bool has_room = built.size() < kKernelsMax;
    if (!figures.is_object() || kernel.size() > kTextMax || !has_room) continue;
    auto& mine = built[kernel];
    for (const auto& [figure, value] : figures.items()) {
      if (mine.size() == kFiguresMax || figure.size() > kTextMax) break;
      if (!value.is_number_integer()) continue;
      mine[figure] =
          std::clamp<std::int64_t>(value.get<std::int64_t>(), 0, kFigureMax);
    }
  }
  return built;
}

Times times_from(const json& told) {
  if (!told.is_object()) return {};
  return {told.value("median_us", 0.0), told.value("p10_us", 0.0),
          told.value("p90_us", 0.0),    told.value("runs", 0),
          told.value("mean_us", 0.0),   told.value("std_us", 0.0),
          told.value("min_us", 0.0),    told.value("max_us", 0.0)};
}

Speedup speedup_from(const json& told) {
  if (!told.is_object()) return {};
  return {told.value("ratio", 0.0), told.value("low", 0.0),
          told.value("high", 0.0)};
}

}  // namespace

Verdict verdict_from(const json& told) {
  Verdict verdict;
  verdict.correct = told.value("correct", false);
  verdict.kind = told.value("kind", "");
  verdict.reason = told.value("reason", "");
  verdict.cases = told.value("cases", 0);
  verdict.max_error = told.value("max_error", 0.0);
  verdict.framework_error = told.value("framework_error", 0.0);
  verdict.tolerance = told.value("tolerance", 0.0);
  const json controls = told.value("controls", json::object());
  for (const auto& [name, rejected] : controls.items()) {
    if (rejected.is_boolean()) verdict.controls[name] = rejected.get<bool>();
  }
  verdict.precision = told.value("precision", "");
  verdict.framework_precision = told.value("framework_precision", "");
  verdict.near_eager = near_eager_from(told.value("near_eager", json()));
  verdict.mismatches = mismatches_from(told.value("mismatches", json()));
  return verdict;
}

Timing timing_from(const json& told) {
  Timing timing;
  timing.candidate = times_from(told.value("candidate", json()));
  timing.eager = times_from(told.value("eager", json()));
  timing.compile = times_from(told.value("compile", json()));
  timing.over_eager = speedup_from(told.value("over_eager", json()));
  timing.over_compile = speedup_from(told.value("over_compile", json()));
  timing.compile_error = told.value("compile_error", "");
  timing.compile_autotune = times_from(told.value("compile_autotune", json()));
  timing.over_compile_autotune =
      speedup_from(told.value("over_compile_autotune", json()));
  timing.compile_autotune_error = told.value("compile_autotune_error", "");
  timing.outputs_checked = told.value("outputs_checked", 0);
  timing.outputs_wrong = told.value("outputs_wrong", 0);
  timing.bytes_floor = told.value("bytes_floor", std::int64_t{0});
  timing.built = built_from(told.value("built", json()));
  if (const json row = told.value("in_a_row", json()); row.is_object()) {
    timing.in_a_row_calls = row.value("calls", 0);
    timing.in_a_row_us = row.value("us", timing.in_a_row_us);
  }
  const json gpu = told.value("gpu", json());
  if (!gpu.is_object()) return timing;
  timing.floor_us = gpu.value("floor_us", 0.0);
  timing.sm_mhz = gpu.value("sm_mhz", timing.sm_mhz);
  timing.throttled = gpu.value("throttled", timing.throttled);
  return timing;
}

}  // namespace weft
