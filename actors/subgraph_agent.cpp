#include "actors/subgraph_agent.hpp"

#include "actors/device.hpp"
#include "actors/outcome.hpp"

namespace weft {
namespace {

/// A kernel at this share of the floor leaves nothing worth searching for.
constexpr double floor_share = 0.95;
/// Smaller than so many times the last cache, memory is no floor.
constexpr std::int64_t caches_min = 2;

std::string first_reason(const std::map<std::string, SeedResult>& results) {
  for (const auto& [id, result] : results) {
    if (result.failure) return id + ": " + result.failure.message;
    if (!result.verdict.correct) return id + ": " + result.verdict.reason;
  }
  return "";
}

}  // namespace

void SubgraphAgent::receive(const Address&, const Message& message,
                            Context& context) {
  if (over_) return;
  if (const auto* work = std::get_if<OptimizeSubgraph>(&message)) {
    if (!work_) begin(*work, context);
  } else if (const auto* reply = std::get_if<SeedsReply>(&message)) {
    seeds_came(*reply, context);
  } else if (const auto* result = std::get_if<SeedResult>(&message)) {
    result_came(*result, context);
  }
}

void SubgraphAgent::begin(const OptimizeSubgraph& work, Context& context) {
  work_ = work;
  for (const std::string& source : work.options.seeds) {
    if (!sources_open_.insert(source).second) continue;
    context.send(address::seeds(source), SeedsRequest{work});
  }
  context.send(address::user, Progress{work.subgraph, "seeds", work.type});
  decide(context);
}

void SubgraphAgent::seeds_came(const SeedsReply& reply, Context& context) {
  if (sources_open_.erase(reply.origin) == 0 || settled_) return;
  if (reply.failure) complaint_ = reply.failure.message;
  for (const Seed& seed : reply.seeds) {
    if (!seeds_.emplace(seed.id, seed).second) continue;
    context.send(address::worker(work_->subgraph, seed.id),
                 VerifySeed{work_->subgraph, work_->graph, seed, work_->options,
                            work_->machine});
  }
  context.send(address::user,
               Progress{work_->subgraph, "verify",
                        std::to_string(seeds_.size()) + " seeds"});
  decide(context);
}

void SubgraphAgent::result_came(const SeedResult& result, Context& context) {
  if (!seeds_.contains(result.seed.id)) return;
  const bool last_timing = result.seed.id == final_;
  const bool late = settled_ || results_.contains(result.seed.id);
  if (!last_timing && late) return;
  results_[result.seed.id] = result;
  if (!last_timing) {
    if (is_near_floor(result)) stop_others(context);
    return decide(context);
  }
  if (!result.verdict.correct || !result.timed) {
    // What was right and fast is neither any more: look at the next best.
    final_.clear();
    return decide(context);
  }
  const bool won = faster_than_eager(result.timing);
  finish(won ? "won" : "lost", won ? "" : "not faster than eager beyond noise",
         context);
}

void SubgraphAgent::stop_others(Context& context) {
  settled_ = true;
  for (const auto& [id, seed] : seeds_) {
    if (results_.contains(id)) continue;
    context.send(address::worker(work_->subgraph, id),
                 StopSeed{"another kernel is near the floor"});
  }
}

void SubgraphAgent::decide(Context& context) {
  const bool waits = !sources_open_.empty() || results_.size() < seeds_.size();
  if (waits && !settled_) return;
  if (!can_time(work_->options, work_->machine)) {
    if (const SeedResult* right = first_right()) {
      final_ = right->seed.id;
      return finish("proven", not_timed, context);
    }
  }
  if (const SeedResult* best = fastest()) {
    final_ = best->seed.id;
    context.send(address::user,
                 Progress{work_->subgraph, "time", best->seed.variant});
    context.send(address::worker(work_->subgraph, final_),
                 TimeSeed{work_->options.final_timing_ms,
                          work_->options.compile_baseline});
    return;
  }
  if (seeds_.empty()) {
    finish("failed", complaint_.empty() ? "no seeds" : complaint_, context);
    return;
  }
  bool judged = false;
  for (const auto& [id, result] : results_) judged |= !result.failure;
  finish(judged ? "wrong" : "failed", first_reason(results_), context);
}

/// Of the compiler's own only: another's speed may yet turn out to be a cheat.
bool SubgraphAgent::is_near_floor(const SeedResult& result) const {
  const Timing& timing = result.timing;
  const auto& gpus = work_->machine.gpus;
  return result.seed.origin == "compiler" && result.verdict.correct &&
         result.timed && timing.floor_us > 0 && !gpus.empty() &&
         timing.bytes_floor > caches_min * gpus.front().l2_bytes &&
         timing.floor_us >= floor_share * timing.candidate.median_us;
}

const SeedResult* SubgraphAgent::fastest() const {
  const SeedResult* best = nullptr;
  double best_speedup = 0;
  for (const auto& [id, result] : results_) {
    if (!result.verdict.correct || !result.timed) continue;
    // Each seed was timed beside eager at its own moment: the ratio carries
    // over from one moment to another, the time does not.
    const double speedup = result.timing.over_eager.ratio;
    if (speedup > best_speedup) {
      best = &result;
      best_speedup = speedup;
    }
  }
  return best;
}

const SeedResult* SubgraphAgent::first_right() const {
  for (const auto& [id, result] : results_) {
    if (result.verdict.correct) return &result;
  }
  return nullptr;
}

void SubgraphAgent::finish(std::string outcome, std::string reason,
                           Context& context) {
  over_ = true;
  SubgraphDone done;
  done.subgraph = work_->subgraph;
  done.outcome = std::move(outcome);
  done.reason = std::move(reason);
  if (!final_.empty()) done.best = results_.at(final_);
  done.seeds = static_cast<int>(seeds_.size());
  for (const auto& [id, result] : results_)
    done.right += result.verdict.correct;
  context.send(address::user,
               Progress{done.subgraph, done.outcome, done.reason});
  context.send(address::dispatcher, done);
}

}  // namespace weft
