#include "runtime/progress/bars.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "actors/number_text.hpp"

namespace weft {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr int kBarWidth = 24;
/// Time alone fills no bar: the stage may take longer than earlier ones.
constexpr double kShareByTimeMax = 0.95;

/// "9.4 s", "2 min 10 s", "1 h 5 min".
std::string duration(std::int64_t us) {
  char text[48];
  const std::int64_t s = us / kSecondUs;
  if (s < 60) {
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(us) / 1e6);
  } else if (s < 3600) {
    std::snprintf(text, sizeof text, "%d min %d s", static_cast<int>(s / 60),
                  static_cast<int>(s % 60));
  } else {
    std::snprintf(text, sizeof text, "%d h %d min", static_cast<int>(s / 3600),
                  static_cast<int>(s / 60 % 60));
  }
  return text;
}

/// No more exact than medians are: whole seconds, then tens, then minutes.
std::string about(std::int64_t us) {
  const std::int64_t s = std::max<std::int64_t>(1, us / kSecondUs);
  if (s < 20) return "about " + std::to_string(s) + " s";
  if (s < 100) return "about " + std::to_string((s + 5) / 10 * 10) + " s";
  if (s < 7200) return "about " + std::to_string((s + 30) / 60) + " min";
  return "about " + std::to_string((s + 1800) / 3600) + " h";
}

std::string bar(double share) {
  const int full = static_cast<int>(std::floor(share * kBarWidth));
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(kBarWidth - full), '.') + "]";
}

/// Of the stage under way: what is counted, or the time that is gone of what
/// earlier runs took. Capture and compose have nothing to count, so their bars
/// stay empty where no earlier run tells how long they take.
double share_of(const Stages& stages, Stage stage,
                const std::vector<EarlierRun>& runs, std::int64_t gone_us) {
  const double counted = stage == Stage::kernels ? stages.kernels_share() : 0;
  const auto expected = expected_us(runs, stage, stages.subgraphs());
  if (!expected || *expected <= 0) return counted;
  const double by_time =
      static_cast<double>(gone_us) / static_cast<double>(*expected);
  return std::max(counted, std::min(kShareByTimeMax, by_time));
}

std::string words_of(const Stages& stages, Stage stage) {
  if (stage != Stage::kernels) return "";
  return "  " + std::to_string(stages.subgraphs_done()) + " of " +
         counted(stages.subgraphs(), "subgraph") + ", " +
         counted(stages.candidates_judged(), "verdict");
}

}  // namespace

std::optional<std::int64_t> left_us(const Stages& stages,
                                    const std::vector<EarlierRun>& runs,
                                    std::int64_t now_us) {
  const auto current = stages.current();
  if (!current) return std::nullopt;
  std::int64_t left = 0;
  for (auto i = static_cast<std::size_t>(*current); i < kStages; ++i) {
    const auto stage = static_cast<Stage>(i);
    const auto expected = expected_us(runs, stage, stages.subgraphs());
    if (!expected) return std::nullopt;
    left += *expected;
    if (stage != *current) continue;
    left -= now_us - *stages.begun_us(stage);
    if (left < 0) return std::nullopt;
  }
  return left;
}

std::vector<std::string> bars(const Stages& stages,
                              const std::vector<EarlierRun>& runs,
                              std::int64_t now_us) {
  const auto current = stages.current();
  if (!current) return {};
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < kStages; ++i) {
    const auto stage = static_cast<Stage>(i);
    std::string line = "  " + std::string(kStageNames[i]) + "  ";
    if (const auto length = stages.length_us(stage)) {
      line += bar(1) + "  " + duration(*length) + words_of(stages, stage);
    } else if (stage == *current) {
      const std::int64_t gone =
          std::max<std::int64_t>(0, now_us - *stages.begun_us(stage));
      line += bar(share_of(stages, stage, runs, gone)) + "  " + duration(gone) +
              words_of(stages, stage);
    } else {
      line += bar(0);
    }
    lines.push_back(line);
  }
  if (const auto left = left_us(stages, runs, now_us)) {
    const bool is_same = runs.front().is_same_problem;
    const auto many = static_cast<int>(
        is_same ? std::ranges::count_if(runs, &EarlierRun::is_same_problem)
                : static_cast<std::ptrdiff_t>(runs.size()));
    lines.push_back("  " + about(*left) + " left, by " +
                    counted(many, "earlier run") +
                    (is_same ? " of this problem" : " of other problems"));
  }
  return lines;
}

}  // namespace weft
