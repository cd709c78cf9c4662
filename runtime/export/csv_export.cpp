#include <nlohmann/json.hpp>

#include "messages/csv_cell.hpp"
#include "runtime/export/exports.hpp"

namespace weft {
namespace {

using nlohmann::json;

/// A cell; null and what is absent are empty.
std::string cell(const json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return csv_cell(value.get<std::string>());
  const std::string text =
      value.dump(-1, ' ', false, json::error_handler_t::replace);
  return value.is_structured() ? csv_cell(text) : text;
}

/// "verdict.max_error" of an object; null where any of it is not there.
const json& at_path(const json& object, std::string_view path) {
  static const json nothing;
  const json* here = &object;
  while (!path.empty()) {
    const auto dot = path.find('.');
    const std::string name(path.substr(0, dot));
    if (!here->is_object() || !here->contains(name)) return nothing;
    here = &(*here)[name];
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  return *here;
}

struct Column {
  const char* name;
  const char* path;
};

constexpr Column kOfSubgraph[] = {
    {"subgraph", "id"},        {"type", "type"}, {"count", "count"},
    {"outcome", "outcome"},    {"best", "best"}, {"operations", "operations"},
    {"signature", "signature"}};

constexpr Column kOfCandidate[] = {
    {"candidate", "id"},
    {"origin", "origin"},
    {"target", "target"},
    {"variant", "variant"},
    {"parent", "parent"},
    {"round", "round"},
    {"state", "state"},
    {"correct", "verdict.correct"},
    {"reason", "verdict.reason"},
    {"failure", "failure"},
    {"cases", "verdict.cases"},
    {"max_error", "verdict.max_error"},
    {"framework_error", "verdict.framework_error"},
    {"tolerance", "verdict.tolerance"},
    {"precision", "verdict.precision"},
    {"median_us", "timing.candidate.median_us"},
    {"p10_us", "timing.candidate.p10_us"},
    {"p90_us", "timing.candidate.p90_us"},
    {"eager_us", "timing.eager.median_us"},
    {"compile_us", "timing.compile.median_us"},
    {"over_eager", "timing.over_eager.ratio"},
    {"over_eager_low", "timing.over_eager.low"},
    {"over_eager_high", "timing.over_eager.high"},
    {"over_compile", "timing.over_compile.ratio"},
    {"bytes_floor", "timing.bytes_floor"},
    {"floor_us", "timing.floor_us"},
    {"location", "location"},
    {"call", "call"},
    {"source", "source"}};

}  // namespace

std::string csv_export(const json& view) {
  std::string text;
  for (const Column& column : kOfSubgraph) {
    text += std::string(column.name) + ",";
  }
  for (const Column& column : kOfCandidate) {
    text += std::string(column.name) + ",";
  }
  text.back() = '\r';
  text += "\n";
  for (const json& subgraph : view["subgraphs"]) {
    for (const json& candidate : subgraph["candidates"]) {
      for (const Column& column : kOfSubgraph) {
        text += cell(at_path(subgraph, column.path)) + ",";
      }
      for (const Column& column : kOfCandidate) {
        text += cell(at_path(candidate, column.path)) + ",";
      }
      text.back() = '\r';
      text += "\n";
    }
  }
  return text;
}

}  // namespace weft
