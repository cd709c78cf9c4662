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

KernelBenchVerdict kernelbench_from(const json& fields) {
  if (!fields.is_object()) return {};
  return {
      fields.value("outcome", ""),        fields.value("reason", ""),
      fields.value("draws", 0),           fields.value("max_difference", 0.0),
      fields.value("tolerance", 0.0),     fields.value("compiled", ""),
      fields.value("compiled_reason", "")};
}

/// A text of that field, or nothing: evidence never fails a reply.
std::string text_from(const json& fields, const char* field) {
  const auto found = fields.find(field);
  if (found == fields.end() || !found->is_string()) return "";
  std::string text = found->get<std::string>();
  if (text.size() > kTextMax) text.clear();
  return text;
}

std::vector<Mismatch> mismatches_from(const json& fields) {
  std::vector<Mismatch> mismatches;
  if (!fields.is_array()) return mismatches;
  for (const json& entry : fields) {
    if (!entry.is_object() || mismatches.size() == kMismatchesMax) continue;
    Mismatch mismatch;
    mismatch.output = text_from(entry, "output");
    mismatch.expected = text_from(entry, "expected");
    mismatch.got = text_from(entry, "got");
    mismatch.error = text_from(entry, "error");
    for (const json& at : entry.value("index", json::array())) {
      if (at.is_number_integer())
        mismatch.index.push_back(at.get<std::int64_t>());
    }
    mismatches.push_back(std::move(mismatch));
  }
  return mismatches;
}

BuiltCode built_from(const json& fields) {
  BuiltCode built;
  if (!fields.is_object()) return built;
  for (const auto& [kernel, figures] : fields.items()) {
    const bool has_capacity = built.size() < kKernelsMax;
    if (!figures.is_object() || kernel.size() > kTextMax || !has_capacity)
      continue;
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

Times times_from(const json& fields) {
  if (!fields.is_object()) return {};
  return {fields.value("median_us", 0.0), fields.value("p10_us", 0.0),
          fields.value("p90_us", 0.0),    fields.value("runs", 0),
          fields.value("mean_us", 0.0),   fields.value("std_us", 0.0),
          fields.value("min_us", 0.0),    fields.value("max_us", 0.0)};
}

Speedup speedup_from(const json& fields) {
  if (!fields.is_object()) return {};
  return {fields.value("ratio", 0.0), fields.value("low", 0.0),
          fields.value("high", 0.0)};
}

}  // namespace

Verdict verdict_from(const json& fields) {
  Verdict verdict;
  verdict.correct = fields.value("correct", false);
  verdict.kind = fields.value("kind", "");
  verdict.reason = fields.value("reason", "");
  verdict.cases = fields.value("cases", 0);
  verdict.max_error = fields.value("max_error", 0.0);
  verdict.framework_error = fields.value("framework_error", 0.0);
  verdict.tolerance = fields.value("tolerance", 0.0);
  const json controls = fields.value("controls", json::object());
  for (const auto& [name, rejected] : controls.items()) {
    if (rejected.is_boolean()) verdict.controls[name] = rejected.get<bool>();
  }
  verdict.precision = fields.value("precision", "");
  verdict.framework_precision = fields.value("framework_precision", "");
  verdict.kernelbench = kernelbench_from(fields.value("kernelbench", json()));
  verdict.mismatches = mismatches_from(fields.value("mismatches", json()));
  return verdict;
}

Timing timing_from(const json& fields) {
  Timing timing;
  timing.candidate = times_from(fields.value("candidate", json()));
  timing.eager = times_from(fields.value("eager", json()));
  timing.compile = times_from(fields.value("compile", json()));
  timing.over_eager = speedup_from(fields.value("over_eager", json()));
  timing.over_compile = speedup_from(fields.value("over_compile", json()));
  timing.compile_error = fields.value("compile_error", "");
  timing.compile_autotune =
      times_from(fields.value("compile_autotune", json()));
  timing.over_compile_autotune =
      speedup_from(fields.value("over_compile_autotune", json()));
  timing.compile_autotune_error = fields.value("compile_autotune_error", "");
  timing.outputs_checked = fields.value("outputs_checked", 0);
  timing.outputs_wrong = fields.value("outputs_wrong", 0);
  timing.bytes_floor = fields.value("bytes_floor", std::int64_t{0});
  timing.built = built_from(fields.value("built", json()));
  if (const json row = fields.value("back_to_back", json()); row.is_object()) {
    timing.back_to_back_calls = row.value("calls", 0);
    timing.back_to_back_us = row.value("us", timing.back_to_back_us);
  }
  const json gpu = fields.value("gpu", json());
  if (!gpu.is_object()) return timing;
  timing.floor_us = gpu.value("floor_us", 0.0);
  timing.sm_mhz = gpu.value("sm_mhz", timing.sm_mhz);
  timing.throttled = gpu.value("throttled", timing.throttled);
  return timing;
}

}  // namespace weft
