#include "actors/llm/history.hpp"

#include <algorithm>
#include <string_view>

#include "actors/llm/measured.hpp"
#include "actors/llm/search.hpp"
#include "actors/llm/text.hpp"
#include "actors/outcome.hpp"
#include "compiler/text/line_diff.hpp"

namespace weft {
namespace {

/// Limits of the history: lines, and bytes of a reason and of a note.
constexpr std::size_t kHistoryMax = 8;
constexpr std::size_t kReasonMax = 200;
constexpr std::size_t kNoteMax = 240;
constexpr std::size_t kDiffLinesMax = 60;

const SeedResult* parent_of(const Seed& seed, const RefineRequest& request) {
  if (seed.parent.empty()) return nullptr;
  // A beam refines other sources' kernels, too, which are no part of it.
  for (const SeedResult* known : {&request.result, &request.best}) {
    if (known->seed.id == seed.parent) return known;
  }
  const auto found =
      std::ranges::find_if(request.history, [&](const SeedResult& seed_result) {
        return seed_result.seed.id == seed.parent;
      });
  return found == request.history.end() ? nullptr : &*found;
}

/// Whether noise may be all that tells two ratios to eager apart.
bool may_be_noise(const Timing& timing, const Timing& other) {
  const Speedup& a = timing.over_eager;
  const Speedup& b = other.over_eager;
  return a.ratio > 0 && b.ratio > 0 && a.ratio != b.ratio && a.low <= b.high &&
         b.low <= a.high;
}

std::string times_against(const SeedResult& result, const SeedResult* parent) {
  if (!result.timed) return "";
  std::string text = ", " + times_text(result.timing);
  if (!parent || !parent->timed) return text;
  text += ": " + gain_text(gain_over(result.timing, parent->timing)) + " " +
          parent->seed.id;
  const bool is_noisy = may_be_noise(result.timing, parent->timing);
  return is_noisy ? text + ", which may be noise: the intervals overlap" : text;
}

/// Whether a right kernel brought nothing.
bool has_failed(const SeedResult& result, const SeedResult* parent) {
  if (!result.verdict.correct) return true;
  if (!result.timed || !parent || !parent->timed) return false;
  return gain_over(result.timing, parent->timing) < 1 + LlmSearch::kGainStep;
}

/// The fastest right one that brought nothing, else the last wrong one. The
/// kernel that is refined now is shown anyway.
const SeedResult* best_failed(const RefineRequest& request) {
  const SeedResult* best = nullptr;
  for (const SeedResult& seed_result : request.history) {
    const SeedResult* parent = parent_of(seed_result.seed, request);
    if (seed_result.seed.source.empty() ||
        seed_result.seed.id == request.seed.id || !parent ||
        verdict_word(seed_result) == "not verified" ||
        !has_failed(seed_result, parent)) {
      continue;
    }
    const bool is_better =
        !best ||
        (seed_result.verdict.correct &&
         (!best->verdict.correct || !best->timed ||
          (seed_result.timed &&
           is_faster(seed_result.timing, best->timing)))) ||
        (!seed_result.verdict.correct && !best->verdict.correct);
    if (is_better) best = &seed_result;
  }
  return best;
}

std::string failed_text(const RefineRequest& request, Blobs& blobs) {
  const SeedResult* failed = best_failed(request);
  if (!failed) return "";
  const SeedResult* parent = parent_of(failed->seed, request);
  const auto before = blobs.get(parent->seed.source);
  const auto after = blobs.get(failed->seed.source);
  if (!before || !after || parent->seed.target != failed->seed.target) {
    return "";
  }
  const std::string diff = line_diff(*before, *after, kDiffLinesMax);
  if (diff.empty()) return "";
  const bool is_noisy =
      failed->timed && may_be_noise(failed->timing, parent->timing);
  const std::string fence = fence_for(diff);
  return "The change from " + parent->seed.id + " to " + failed->seed.id +
         (is_noisy ? ", which did not help beyond noise"
                   : ", which did not help") +
         ":\n\n" + fence + "diff\n" + diff + fence + "\n\n";
}

std::string trimmed_note(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  text = text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
  return std::string(text.substr(0, kNoteMax));
}

}  // namespace

KernelNotes notes_of(std::string_view python) {
  KernelNotes notes;
  while (!python.empty()) {
    const auto end = std::min(python.find('\n'), python.size());
    const std::string_view line = python.substr(0, end);
    python.remove_prefix(std::min(end + 1, python.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (!line.starts_with("#")) break;
    constexpr std::string_view idea = "# idea:";
    constexpr std::string_view review = "# review:";
    if (line.starts_with(idea)) {
      notes.idea = trimmed_note(line.substr(idea.size()));
    } else if (line.starts_with(review)) {
      notes.review = trimmed_note(line.substr(review.size()));
    }
  }
  return notes;
}

std::string verdict_word(const SeedResult& result) {
  return result.failure && result.verdict.kind.empty() ? "not verified"
                                                       : result.verdict.kind;
}

std::string tried_line(const SeedResult& result, const SeedResult* parent) {
  const Seed& seed = result.seed;
  std::string line = "round " + std::to_string(seed.round) + ", ";
  line += seed.id.empty() ? seed.variant : seed.id;
  if (!seed.parent.empty()) line += " from " + seed.parent;
  if (!seed.idea.empty()) line += " (" + seed.idea + ")";
  line += ": ";
  if (result.verdict.correct) {
    line += "correct" + times_against(result, parent);
  } else {
    const std::string& reason =
        result.failure ? result.failure.message : result.verdict.reason;
    line += verdict_word(result) + ", " + reason.substr(0, kReasonMax);
  }
  if (!seed.review.empty()) {
    line += ". Your review then: " + seed.review;
  }
  return line;
}

std::string history_text(const RefineRequest& request, Blobs& blobs) {
  if (request.history.empty()) return "";
  const std::size_t count = request.history.size();
  const std::size_t from = count > kHistoryMax ? count - kHistoryMax : 0;
  std::string text = "Tried so far:\n";
  for (std::size_t i = from; i < count; ++i) {
    const SeedResult& seed_result = request.history[i];
    text += "- " +
            tried_line(seed_result, parent_of(seed_result.seed, request)) +
            "\n";
  }
  return text + "\n" + failed_text(request, blobs);
}

}  // namespace weft
