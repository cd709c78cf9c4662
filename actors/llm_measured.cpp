#include "actors/llm_measured.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string_view>

namespace weft {
namespace {

/// Of the time that moving the bytes takes: at that share of it a kernel is
/// bound by memory whatever its code shows.
constexpr double kNearFloor = 0.7;
/// Below that, memory is not what it waits for.
constexpr double kFarFromFloor = 0.3;
/// Slower than another by as much is more than noise (a search's step).
constexpr double kSlower = 1.05;
/// Warps to hide latency with are few below it; what a streaming kernel needs
/// of them depends on the loads in flight of each.
constexpr std::int64_t kLowOccupancyPercent = 50;
/// Of vector instructions, one stored on the stack in so many is in a loop.
constexpr std::int64_t kInstructionsASpill = 8;
/// Kernels that are told of.
constexpr std::size_t kKernelsMax = 4;

using Figures = std::map<std::string, std::int64_t>;
using Methods = std::span<const char* const>;

constexpr std::array kMoving = {
    "read and write each byte once: fuse what is computed in several passes",
    "wider and aligned loads and stores, several in flight a thread",
    "another split of the work over threads and blocks, so that all bandwidth "
    "is used",
    "keep what is read twice in registers or shared memory"};
constexpr std::array kComputing = {
    "fewer and cheaper instructions: hoist what does not change, replace "
    "divisions and transcendental functions where the result stays exact",
    "tile for registers and cache", "fewer launches and no temporary memory",
    "another split of the work over threads and blocks"};
constexpr std::array kSpilling = {
    "fewer values alive in a thread: smaller tiles, less unrolling",
    "more threads for the same tile, so that each holds less of it",
    "indices that are known when it is compiled, so that arrays stay in "
    "registers"};
constexpr std::array kByRegisters = {
    "fewer registers a thread: smaller tiles, less unrolling, launch bounds",
    "more independent loads in flight in each thread, so that fewer warps are "
    "enough"};
constexpr std::array kBySharedMemory = {
    "less shared memory a block: smaller tiles, fewer stages",
    "registers and warp shuffles in place of shared memory"};
constexpr std::array kByThreads = {
    "another block size, so that blocks fill a multiprocessor",
    "more independent work in each thread, so that fewer warps are enough"};
constexpr std::array kScalar = {
    "loops that the compiler vectorises: contiguous accesses, no calls and no "
    "branches within, `#pragma omp simd`",
    "vector intrinsics, or the compiler's vector types"};
constexpr std::array kVectorSpilling = {
    "fewer accumulators and less unrolling, so that vectors stay in registers",
    "another loop order, so that fewer values are alive at once"};

std::string number(double value) {
  std::array<char, 32> text{};
  const char* format = value < 1000 ? "%.4g" : "%.0f";
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string percent(double share) {
  return std::to_string(static_cast<int>(100 * share + 0.5)) + " %";
}

/// 0 where it is not told.
std::int64_t figure(const Figures& figures, const char* name) {
  const auto found = figures.find(name);
  return found == figures.end() ? 0 : found->second;
}

/// Which resource leaves room for no more blocks on a multiprocessor.
std::string limited_by(const Figures& figures) {
  const std::int64_t blocks = figure(figures, "blocks");
  const auto limits = [&](const char* name) {
    return figures.contains(name) && figure(figures, name) == blocks;
  };
  if (limits("blocks_by_registers")) return "registers";
  if (limits("blocks_by_shared_memory")) return "shared memory";
  return "threads";
}

std::string figures_text(const std::string& kernel, const Figures& figures) {
  std::vector<std::string> words;
  const auto add = [&](const char* name, const char* unit) {
    if (!figures.contains(name)) return;
    words.push_back(std::to_string(figure(figures, name)) + unit);
  };
  add("registers", " registers a thread");
  add("local_bytes", " bytes of local memory a thread");
  add("threads", " threads a block");
  add("shared_bytes", " bytes of shared memory a block");
  if (figures.contains("occupancy_percent")) {
    words.push_back("occupancy " +
                    std::to_string(figure(figures, "occupancy_percent")) +
                    " % (limited by " + limited_by(figures) + ")");
  }
  if (figure(figures, "vector_bits") > 0) add("vector_bits", "-bit vectors");
  add("vector_instructions", " floating-point instructions on vectors");
  add("scalar_instructions", " on single values");
  add("vector_spills", " vectors stored on the stack");
  std::string text = "`" + kernel + "`:";
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i ? ", " : " ") + words[i];
  }
  return text;
}

std::string built_text(const BuiltCode& built) {
  if (built.empty()) return "";
  std::string text = "What it was built into:\n";
  std::size_t told = 0;
  for (const auto& [kernel, figures] : built) {
    if (told++ == kKernelsMax) {
      return text + "- and " + std::to_string(built.size() - kKernelsMax) +
             " more\n";
    }
    text += "- " + figures_text(kernel, figures) + "\n";
  }
  return text;
}

/// One that tunes itself is built several times, as "name", "name (2)", …:
/// nobody knows which of them ran.
std::string_view plain_name(std::string_view kernel) {
  return kernel.substr(0, kernel.find(" ("));
}

/// Whether all builds of that kernel are so.
template <typename Is>
bool holds_of_all_builds(const BuiltCode& built, const std::string& kernel,
                         const Is& is) {
  return std::ranges::all_of(built, [&](const auto& other) {
    return plain_name(other.first) != plain_name(kernel) || is(other.second);
  });
}

/// A thing that limits, in a sentence, and what is done about it.
struct Cause {
  std::string text;
  Methods methods;
};

Cause spilling(const BuiltCode& built) {
  const auto spills = [](const Figures& figures) {
    return figure(figures, "local_bytes") > 0;
  };
  for (const auto& [kernel, figures] : built) {
    if (!holds_of_all_builds(built, kernel, spills)) continue;
    return {"Registers are what limits it: `" + kernel + "` keeps " +
                std::to_string(figure(figures, "local_bytes")) +
                " bytes of each thread in local memory (spilled registers, or "
                "arrays that are indexed at run time).",
            kSpilling};
  }
  return {};
}

Methods methods_against(const std::string& limit) {
  if (limit == "registers") return kByRegisters;
  return limit == "threads" ? Methods(kByThreads) : Methods(kBySharedMemory);
}

Cause few_warps(const BuiltCode& built) {
  const auto has_few = [](const Figures& figures) {
    return figures.contains("occupancy_percent") &&
           figure(figures, "occupancy_percent") < kLowOccupancyPercent;
  };
  for (const auto& [kernel, figures] : built) {
    if (!holds_of_all_builds(built, kernel, has_few)) continue;
    const std::string limit = limited_by(figures);
    return {"Occupancy is what limits it: of `" + kernel + "` " +
                std::to_string(figure(figures, "blocks")) +
                " blocks are on a multiprocessor at once, " +
                std::to_string(figure(figures, "occupancy_percent")) +
                " % of its threads, limited by " + limit + ".",
            methods_against(limit)};
  }
  return {};
}

Cause scalar(const BuiltCode& built) {
  std::int64_t on_vectors = 0;
  std::int64_t on_values = 0;
  for (const auto& [kernel, figures] : built) {
    on_vectors += figure(figures, "vector_instructions");
    on_values += figure(figures, "scalar_instructions");
  }
  if (on_vectors > 0 || on_values == 0) return {};
  return {"It is not vectorised, which limits it: all " +
              std::to_string(on_values) +
              " floating-point instructions are on single values.",
          kScalar};
}

Cause vectors_on_the_stack(const BuiltCode& built) {
  for (const auto& [kernel, figures] : built) {
    const std::int64_t spills = figure(figures, "vector_spills");
    if (spills == 0 ||
        kInstructionsASpill * spills < figure(figures, "vector_instructions")) {
      continue;
    }
    return {"Vector registers are what limits it: `" + kernel + "` stores " +
                std::to_string(spills) + " vectors on the stack, beside " +
                std::to_string(figure(figures, "vector_instructions")) +
                " floating-point instructions on vectors.",
            kVectorSpilling};
  }
  return {};
}

/// The fastest that does the same.
double fastest_other_us(const Timing& timing) {
  double fastest = 0;
  for (const Times* other :
       {&timing.eager, &timing.compile, &timing.compile_autotune}) {
    if (other->runs == 0 || other->median_us <= 0) continue;
    if (fastest == 0 || other->median_us < fastest) fastest = other->median_us;
  }
  return fastest;
}

/// What the times alone tell.
Cause by_times(double share, double over_fastest) {
  if (share >= kFarFromFloor) {
    return {"Memory traffic limits it.", kMoving};
  }
  if (share > 0) {
    return {
        "It is far from what memory allows: instructions, latency or "
        "launches limit it.",
        kComputing};
  }
  if (over_fastest >= kSlower) {
    return {
        "The framework moves the same bytes in less time: instructions, "
        "latency or launches limit it, not memory.",
        kComputing};
  }
  return {"Whether memory traffic or instructions limit it was not measured.",
          kMoving};
}

Cause cause_of(const Timing& timing, bool multiplies) {
  const double us = timing.candidate.median_us;
  const double share = us > 0 ? timing.floor_us / us : 0;
  const double fastest = fastest_other_us(timing);
  const double over_fastest = fastest > 0 ? us / fastest : 0;
  const bool has_floor = share > 0 && !multiplies;
  const bool is_slow = has_floor ? share < kNearFloor : over_fastest >= kSlower;
  if (is_slow) {
    Cause found = spilling(timing.built);
    if (found.text.empty()) found = scalar(timing.built);
    if (found.text.empty()) found = vectors_on_the_stack(timing.built);
    // Products are fast with few warps that each do much.
    if (found.text.empty() && !multiplies) found = few_warps(timing.built);
    if (!found.text.empty()) return found;
  }
  return by_times(share, over_fastest);
}

std::string untried(Methods methods, const std::vector<SeedResult>& history) {
  const auto tries = [&](std::string_view method) {
    return std::ranges::count_if(history, [&](const SeedResult& one) {
      return one.seed.method == method;
    });
  };
  return *std::ranges::min_element(methods, {}, tries);
}

}  // namespace

std::string times_text(const Timing& timing) {
  std::string text = number(timing.candidate.median_us) + " us";
  if (timing.eager.runs > 0) {
    text += ", eager " + number(timing.eager.median_us) + " us";
  }
  if (timing.compile.runs > 0) {
    text += ", torch.compile " + number(timing.compile.median_us) + " us";
  }
  if (timing.floor_us > 0) {
    text +=
        ", moving the bytes that must move " + number(timing.floor_us) + " us";
  }
  return text;
}

Bottleneck bottleneck_of(const SeedResult& result, bool multiplies,
                         const std::vector<SeedResult>& history) {
  const Timing& timing = result.timing;
  const double us = timing.candidate.median_us;
  std::string text = "It takes " + times_text(timing) + ".";
  if (timing.bytes_floor > 0 && us > 0) {
    text += " " + std::to_string(timing.bytes_floor) +
            " bytes must move at least: that is " +
            number(static_cast<double>(timing.bytes_floor) / 1e3 / us) +
            " GB/s";
    if (timing.floor_us > 0) {
      text += ", " + percent(timing.floor_us / us) + " of what a copy reaches";
    }
    text += ".";
  }
  const Cause cause = cause_of(timing, multiplies);
  text += " " + cause.text + "\n" + built_text(timing.built);
  return {text, untried(cause.methods, history)};
}

}  // namespace weft
