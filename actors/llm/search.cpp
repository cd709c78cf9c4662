#include "actors/llm/search.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "actors/device.hpp"
#include "actors/llm/seeds.hpp"
#include "messages/formatted.hpp"

namespace weft {
namespace {

/// Told of a search in the report.
constexpr std::size_t kTriesMax = 200;

/// A kernel at this share of the floor leaves nothing worth searching for.
constexpr double kFloorShare = 0.95;
/// Smaller than so many times the last cache, memory is no floor.
constexpr std::int64_t kCachesMin = 2;
constexpr int kBeamMax = 16;

bool is_models(const SeedResult& result) {
  return result.seed.origin == kLlmSource;
}

/// The measure by which timed kernels are compared, less is better. A
/// processor's times of different minutes are not: its ratio to eager of the
/// same rounds is.
double slowness(const Timing& timing, int edition) {
  const bool by_time =
      edition < 2 || timing.floor_us > 0 || timing.over_eager.ratio <= 0;
  return by_time ? timing.candidate.median_us : 1 / timing.over_eager.ratio;
}

/// How far a kernel came; of those equally far, the better first.
std::tuple<int, double, int> rank(const SeedResult& result, int edition) {
  const bool correct = result.verdict.correct;
  if (correct && result.timed) {
    return {0, slowness(result.timing, edition), -result.seed.round};
  }
  if (correct) return {1, 0, -result.seed.round};
  const int stage = result.failure ? 4 : result.built ? 2 : 3;
  return {stage, 0, -result.seed.round};
}

}  // namespace

bool is_at_floor(const SeedResult& result, const Machine& machine) {
  const Timing& timing = result.timing;
  return result.verdict.correct && result.timed && timing.floor_us > 0 &&
         !machine.gpus.empty() &&
         timing.bytes_floor > kCachesMin * machine.gpus.front().l2_bytes &&
         timing.floor_us >= kFloorShare * timing.candidate.median_us;
}

std::string asked_text(const std::vector<RefineRequest>& asks) {
  const RefineRequest& first = asks.front();
  const std::string model = first.work.options.llm.name;
  if (first.round == 0) return "asks " + model + " for first kernels";
  std::string text = "round " + std::to_string(first.round) + ": ";
  if (first.seed.id.empty()) return text + "first kernels once more";
  for (const RefineRequest& ask : asks) {
    const SeedResult& result = ask.result;
    if (&ask != &first) text += ", ";
    text += ask.seed.id + " (" +
            (result.failure ? "not verified" : result.verdict.kind);
    if (result.timed) {
      text += formatted(", %.1f us", result.timing.candidate.median_us);
    }
    text += ")";
  }
  return text;
}

int beam_width(const std::string& search) {
  if (search == "greedy") return 1;
  constexpr std::string_view beam = "beam:";
  if (!search.starts_with(beam)) return 0;
  int width = 0;
  const char* end = search.data() + search.size();
  const auto read = std::from_chars(search.data() + beam.size(), end, width);
  const bool is_whole = read.ec == std::errc() && read.ptr == end;
  return is_whole && width >= 1 && width <= kBeamMax ? width : 0;
}

void LlmSearch::begin(const RunOptions& options) {
  wanted_ = std::ranges::find(options.seeds, kLlmSource) != options.seeds.end();
}

void LlmSearch::replied(const SeedsReply& reply) {
  open_ = std::max(0, open_ - 1);
  add_spent(summary_.spent, reply.spent);
  error_text_ = reply.failure.message;
  if (!reply.failure || reply.failure.code == "no_kernel") return;
  summary_.out_of_budget |= reply.failure.code == "budget";
  end(std::string(kNoFurtherCall) + reply.failure.message);
}

void LlmSearch::end(const std::string& why) {
  if (wanted_ && summary_.note.empty()) summary_.note = why;
  wanted_ = false;
  open_ = 0;
}

/// Whether the last round brought a step, or nothing is right yet.
bool LlmSearch::judge_gain(const Results& results, int edition) {
  double now = 0;
  for (const auto& [id, result] : results) {
    if (!is_models(result) || !result.verdict.correct || !result.timed)
      continue;
    const double own = slowness(result.timing, edition);
    if (now == 0 || own < now) now = own;
  }
  if (now == 0) return true;
  const bool gained = slowness_ == 0 || now <= (1 - kGainStep) * slowness_;
  if (gained) slowness_ = now;
  return gained;
}

std::vector<RefineRequest> LlmSearch::next(const OptimizeSubgraph& work,
                                           const Results& results,
                                           const SeedResult* best) {
  if (!wanted_) return {};
  const LlmOptions& options = work.options.llm;
  if (best && is_at_floor(*best, work.machine)) {
    end(summary_.rounds == 0 ? "not asked: the " + best->seed.origin +
                                   "'s kernel is at the "
                                   "floor"
                             : "a kernel at the floor");
    return {};
  }
  if (summary_.rounds > 0) {
    const bool proven =
        !can_time(work.options, work.machine) &&
        std::ranges::any_of(results, [](const auto& item) {
          return is_models(item.second) && item.second.verdict.correct;
        });
    fruitless_ = judge_gain(results, options.edition) ? 0 : fruitless_ + 1;
    if (proven) {
      end("a right kernel, and none can be timed");
    } else if (summary_.rounds > options.rounds) {
      end("all " + std::to_string(options.rounds) + " rounds");
    } else if (fruitless_ >= kRoundsWithoutGainMax) {
      end(std::to_string(fruitless_) + " rounds without a gain of 5 %");
    }
    if (!wanted_) return {};
  }
  std::vector<RefineRequest> all;
  for (const SeedResult* parent : parents(options, results)) {
    all.push_back(request(work, results, best, parent));
  }
  if (all.empty()) all.push_back(request(work, results, best, nullptr));
  ++summary_.rounds;
  open_ = static_cast<int>(all.size());
  return all;
}

/// The best that is to be bettered. Of the model's own, until it has written
/// something, nothing: it begins anew. A beam holds other sources' kernels,
/// too.
std::vector<const SeedResult*> LlmSearch::parents(
    const LlmOptions& options, const Results& results) const {
  std::vector<const SeedResult*> best;
  if (summary_.rounds == 0) return best;
  const bool is_beam = options.search != "greedy";
  for (const auto& [id, result] : results) {
    const bool may_begin_from =
        is_beam && result.verdict.correct && !result.failure;
    if (is_models(result) || may_begin_from) best.push_back(&result);
  }
  std::ranges::stable_sort(best, {}, [&](const SeedResult* seed_result) {
    return rank(*seed_result, options.edition);
  });
  const auto width =
      static_cast<std::size_t>(std::max(1, beam_width(options.search)));
  best.resize(std::min(best.size(), width));
  return best;
}

RefineRequest LlmSearch::request(const OptimizeSubgraph& work,
                                 const Results& results, const SeedResult* best,
                                 const SeedResult* parent) const {
  RefineRequest refine_request;
  refine_request.subgraph = work.subgraph;
  refine_request.work = work;
  refine_request.round = summary_.rounds;
  if (best) refine_request.best = *best;
  if (parent) {
    refine_request.seed = parent->seed;
    refine_request.result = *parent;
  } else if (!error_text_.empty()) {
    refine_request.result.failure = {"no_kernel", error_text_};
  }
  for (const auto& [id, result] : results) {
    if (is_models(result)) refine_request.history.push_back(result);
  }
  std::ranges::stable_sort(
      refine_request.history, {},
      [](const SeedResult& seed_result) { return seed_result.seed.round; });
  if (parent && !error_text_.empty()) {
    SeedResult& unusable = refine_request.history.emplace_back();
    unusable.seed.round = summary_.rounds - 1;
    unusable.seed.variant = "your last answer";
    unusable.verdict.kind = "not used";
    unusable.failure = {"no_kernel", error_text_};
  }
  return refine_request;
}

std::vector<LlmTry> LlmSearch::tries(const Results& results) {
  std::vector<LlmTry> all;
  for (const auto& [id, result] : results) {
    const std::string kind = result.failure ? "failed" : result.verdict.kind;
    all.push_back({id, result.seed.parent, result.seed.round, kind,
                   result.timed ? result.timing.candidate.median_us : 0});
  }
  std::ranges::stable_sort(all, {}, &LlmTry::round);
  all.resize(std::min(all.size(), kTriesMax));
  return all;
}

}  // namespace weft
