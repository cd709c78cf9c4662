#include "actors/llm/measured.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string_view>

#include "messages/formatted.hpp"

namespace weft {
namespace {

/// Of the time that moving the bytes takes: at that share of it a kernel is
/// bound by memory whatever its code shows.
constexpr double kAtRoofline = 0.7;
/// Below that, memory is not what it waits for.
constexpr double kFarFromFloor = 0.3;
/// Slower than another by as much is more than noise (a search's step).
constexpr double kSlower = 1.05;
/// Warps to hide latency with are few below it; what a streaming kernel needs
/// of them depends on the loads in flight of each.
constexpr std::int64_t kLowOccupancyPercent = 50;
/// Of vector instructions, one stored on the stack in so many is in a loop.
constexpr std::int64_t kInstructionsASpill = 8;
/// Kernels that are described, and figures of all of them: more hide the one
/// that matters.
constexpr std::size_t kKernelsMax = 4;
constexpr std::size_t kFiguresMax = 10;

using Figures = std::map<std::string, std::int64_t>;
using Methods = std::span<const char* const>;

constexpr std::array kMoving = {
    "read and write each byte once: compute in one pass what now takes several",
    "wider and aligned loads and stores, several in flight for each thread",
    "another split of the work over threads, so that all bandwidth is used",
    "keep data that is read twice in registers or in the nearest cache"};
constexpr std::array kComputing = {
    "fewer and cheaper instructions: move invariant work out of loops; replace "
    "divisions and transcendental functions where the result stays exact",
    "tile for registers and cache", "fewer launches and no temporary memory",
    "another split of the work over threads and blocks"};
constexpr std::array kProducts = {
    "a larger tile of accumulators in registers, so that each loaded value is "
    "used more often",
    "pack or stage the operands so that the inner loop reads contiguous memory "
    "from a near cache",
    "another tile size and loop order, by the sizes of the caches",
    "split the reduced dimension if there are too few tiles for all cores"};
constexpr std::array kSpilling = {
    "fewer values alive in a thread: smaller tiles, less unrolling",
    "more threads for the same tile, so that each holds less of it",
    "indices that are known at compile time, so that arrays stay in registers"};
constexpr std::array kByRegisters = {
    "fewer registers for each thread: smaller tiles, less unrolling, launch "
    "bounds",
    "more independent loads in flight in each thread, so that fewer warps are "
    "enough"};
constexpr std::array kBySharedMemory = {
    "less shared memory for each block: smaller tiles, fewer stages",
    "registers and warp shuffles instead of shared memory"};
constexpr std::array kByThreads = {
    "another block size, so that blocks fill a multiprocessor",
    "more independent work in each thread, so that fewer warps are enough"};
constexpr std::array kScalar = {
    "loops that the compiler vectorises: contiguous accesses, no calls and no "
    "branches in them, `#pragma omp simd`",
    "vector intrinsics, or the compiler's vector types"};
constexpr std::array kVectorSpilling = {
    "fewer accumulators and less unrolling, so that vectors stay in registers",
    "another loop order, so that fewer values are alive at once"};

std::string short_number(double value) {
  return formatted(value < 1000 ? "%.4g" : "%.0f", value);
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

std::vector<std::string> figures_of(const Figures& figures) {
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
  return words;
}

std::string built_text(const BuiltCode& built) {
  if (built.empty()) return "";
  std::string text = "The built code:\n";
  std::size_t kernels = 0;
  std::size_t figures = 0;
  for (const auto& [kernel, values] : built) {
    const auto words = figures_of(values);
    if (kernels == kKernelsMax || figures + words.size() > kFiguresMax) {
      return text + "- and " + std::to_string(built.size() - kernels) +
             " more\n";
    }
    ++kernels;
    figures += words.size();
    text += "- `" + kernel + "`:";
    for (const std::string& word : words) {
      text += (&word == &words.front() ? " " : ", ") + word;
    }
    text += "\n";
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

/// What the times alone say.
Cause by_times(double share, double over_fastest, const Situation& situation) {
  const Methods far =
      situation.multiplies ? Methods(kProducts) : Methods(kComputing);
  if (share >= kFarFromFloor && situation.computes) {
    return {"Arithmetic limits it.", far};
  }
  if (share >= kFarFromFloor && !situation.multiplies) {
    return {"Memory traffic limits it.", kMoving};
  }
  if (share > 0) {
    return {
        "It is far from what the device allows: instructions, latency or "
        "launches limit it.",
        far};
  }
  if (situation.is_light) {
    return {
        "It has few operations for each byte: memory or caches limit it, or "
        "threads that wait for each other.",
        kMoving};
  }
  if (over_fastest >= kSlower) {
    return {
        "PyTorch needs less time for the same work: instructions, latency or "
        "launches limit it, not memory.",
        far};
  }
  return {"It is not known whether memory traffic or instructions limit it.",
          situation.multiplies ? Methods(kProducts) : Methods(kMoving)};
}

double floor_of(const Timing& timing, const Situation& situation) {
  const bool is_measured = timing.floor_us > 0 && !situation.computes;
  return is_measured ? timing.floor_us : situation.floor_us;
}

Cause cause_of(const Timing& timing, const Situation& situation) {
  const double us = timing.candidate.median_us;
  const double share = us > 0 ? floor_of(timing, situation) / us : 0;
  const double fastest = fastest_other_us(timing);
  const double over_fastest = fastest > 0 ? us / fastest : 0;
  const bool has_floor = share > 0 && !situation.multiplies;
  const bool is_slow =
      has_floor ? share < kAtRoofline : over_fastest >= kSlower;
  // Code without a vector can be faster than eager, and is not done.
  if (const Cause found = scalar(timing.built);
      !is_slow && !found.text.empty() && share < kAtRoofline) {
    return found;
  }
  if (is_slow) {
    Cause found = spilling(timing.built);
    if (found.text.empty()) found = scalar(timing.built);
    if (found.text.empty()) found = vectors_on_the_stack(timing.built);
    // Products are fast with few warps that each do much.
    if (found.text.empty() && !situation.multiplies) {
      found = few_warps(timing.built);
    }
    if (!found.text.empty()) return found;
  }
  return by_times(share, over_fastest, situation);
}

std::string untried(Methods methods, const std::vector<SeedResult>& history) {
  const auto tries = [&](std::string_view method) {
    return std::ranges::count_if(history, [&](const SeedResult& seed_result) {
      return seed_result.seed.method == method;
    });
  };
  return *std::ranges::min_element(methods, {}, tries);
}

}  // namespace

std::string times_text(const Timing& timing) {
  std::string text;
  if (timing.over_eager.ratio > 0) {
    text += short_number(timing.over_eager.ratio) + "x eager (95 % interval " +
            short_number(timing.over_eager.low) + " to " +
            short_number(timing.over_eager.high) + ")";
  }
  if (timing.over_compile.ratio > 0) {
    text += (text.empty() ? "" : ", ") +
            short_number(timing.over_compile.ratio) + "x torch.compile";
  }
  text += (text.empty() ? "" : "; ") +
          short_number(timing.candidate.median_us) + " us";
  if (timing.eager.runs > 0) {
    text += " where eager took " + short_number(timing.eager.median_us) +
            " us in the same rounds";
  }
  return text;
}

std::string gain_text(double gain) {
  const double change = 100 * (gain - 1);
  std::array<char, 48> text{};
  if (change >= 0.5) {
    std::snprintf(text.data(), text.size(), "%.0f %% faster than", change);
  } else if (gain > 0 && 1 / gain >= 1.005) {
    std::snprintf(text.data(), text.size(), "%.0f %% slower than",
                  100 * (1 / gain - 1));
  } else {
    return "as fast as";
  }
  return text.data();
}

Bottleneck bottleneck_of(const SeedResult& result, const Situation& situation,
                         const std::vector<SeedResult>& history) {
  const Timing& timing = result.timing;
  const double us = timing.candidate.median_us;
  std::string text = "It runs at " + times_text(timing) + ".";
  if (situation.computes && us > 0 && situation.floor_us > 0) {
    text += " Its arithmetic alone takes " + percent(situation.floor_us / us) +
            " of this time.";
  } else if (timing.bytes_floor > 0 && us > 0 && !situation.multiplies) {
    text += " It moves " +
            short_number(static_cast<double>(timing.bytes_floor) / 1e3 / us) +
            " GB/s of the bytes that must move";
    const double floor_us = floor_of(timing, situation);
    if (floor_us > 0) text += ", " + percent(floor_us / us) + " of a copy";
    text += ".";
  }
  const Cause cause = cause_of(timing, situation);
  text += " " + cause.text + "\n" + built_text(timing.built);
  return {text, untried(cause.methods, history)};
}

}  // namespace weft
