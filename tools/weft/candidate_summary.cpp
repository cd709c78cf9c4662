#include "tools/weft/candidate_summary.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "actors/device.hpp"
#include "actors/mismatch_text.hpp"
#include "messages/formatted.hpp"
#include "messages/shown_text.hpp"

namespace weft {
namespace {

using nlohmann::json;

/// Further lines of a value are below its first.
std::string line(const char* name, const std::string& value) {
  std::string text;
  for (std::size_t begin = 0; begin < value.size();) {
    const auto end = std::min(value.find('\n', begin), value.size());
    text += formatted("  %-14s", begin == 0 ? name : "") +
            value.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return text;
}

std::string came_from(const Seed& seed) {
  std::string text = seed.origin;
  if (seed.round > 0) {
    text += ", round " + std::to_string(seed.round) + " of " + seed.parent;
  }
  return text;
}

std::string verdict_word(const SeedResult& result) {
  return result.failure ? "not verified" : result.verdict.kind;
}

const std::string& reason_of(const SeedResult& result) {
  return result.failure ? result.failure.message : result.verdict.reason;
}

std::string microseconds(double value) {
  return formatted(value < 1000 ? "%.4g" : "%.0f", value);
}

std::string times_line(const char* name, const Times& times,
                       const Speedup& over) {
  if (times.runs == 0) return "";
  std::string text = microseconds(times.median_us) + " us (" +
                     microseconds(times.p10_us) + " to " +
                     microseconds(times.p90_us) + ", " +
                     std::to_string(times.runs) + " runs)";
  if (over.ratio > 0) {
    text += formatted(": %.2fx as long (%.2f to %.2f)", over.ratio, over.low,
                      over.high);
  }
  return line(name, text);
}

std::string times_lines(const Timing& timing) {
  std::string text = times_line("time", timing.candidate, {});
  text += times_line("eager", timing.eager, timing.over_eager);
  text += times_line("torch.compile", timing.compile, timing.over_compile);
  text += times_line("max-autotune", timing.compile_autotune,
                     timing.over_compile_autotune);
  if (timing.floor_us > 0) {
    text += line("floor", microseconds(timing.floor_us) + " us to move " +
                              std::to_string(timing.bytes_floor) + " bytes");
  }
  return text;
}

std::string built_lines(const BuiltCode& built) {
  std::string text;
  for (const auto& [kernel, figures] : built) {
    std::string words = kernel + ":";
    for (const auto& [figure, value] : figures) {
      words += " " + figure + " " + std::to_string(value);
    }
    text += line("built", words);
  }
  return text;
}

}  // namespace

std::string candidate_line(const SeedResult& result) {
  std::string text = result.seed.id + "  " + result.seed.variant + "  ";
  const std::string round = "round " + std::to_string(result.seed.round);
  if (result.seed.round > 0 && !result.seed.variant.starts_with(round)) {
    text += round + "  ";
  }
  if (result.failure) return text + "not verified: " + result.failure.message;
  if (!result.verdict.correct) {
    return text + result.verdict.kind + ": " + result.verdict.reason;
  }
  if (!result.timed) return text + result.verdict.kind;
  return text + formatted(
                    "%s, error %.2g (PyTorch's %.2g), %.3f ms, %.2fx over "
                    "eager",
                    result.verdict.kind.c_str(), result.verdict.max_error,
                    result.verdict.framework_error,
                    result.timing.candidate.median_us / 1000,
                    result.timing.over_eager.ratio);
}

std::string candidate_text(const SeedResult& result) {
  const Verdict& verdict = result.verdict;
  std::string text =
      terminal_line(result.seed.id + "  " + result.seed.variant) + "\n";
  text += line("from", came_from(result.seed));
  text += line("method", result.seed.method);
  text += line("target", result.seed.target);
  text += line("verdict", verdict_word(result));
  text += line("why", reason_of(result));
  for (const Mismatch& mismatch : verdict.mismatches) {
    text += line("element", mismatch_line(mismatch));
  }
  if (verdict.cases > 0) {
    text += line("error",
                 formatted("%.3g in %d cases, at most %.3g (PyTorch's %.3g)",
                           verdict.max_error, verdict.cases, verdict.tolerance,
                           verdict.framework_error));
  }
  if (result.timed) text += times_lines(result.timing);
  text += built_lines(result.timing.built);
  return text + line("at", location_name(result.location));
}

json candidate_json(const SeedResult& result) {
  json mismatches = json::array();
  for (const Mismatch& mismatch : result.verdict.mismatches) {
    mismatches.push_back({{"output", mismatch.output},
                          {"index", mismatch.index},
                          {"expected", mismatch.expected},
                          {"got", mismatch.got},
                          {"error", mismatch.error}});
  }
  return {{"seed", result.seed.id},
          {"origin", result.seed.origin},
          {"parent", result.seed.parent},
          {"round", result.seed.round},
          {"method", result.seed.method},
          {"variant", result.seed.variant},
          {"kind", result.verdict.kind},
          {"reason", reason_of(result)},
          {"max_error", result.verdict.max_error},
          {"mismatches", std::move(mismatches)},
          {"candidate_us", result.timing.candidate.median_us},
          {"eager_us", result.timing.eager.median_us},
          {"built", result.timing.built}};
}

}  // namespace weft
