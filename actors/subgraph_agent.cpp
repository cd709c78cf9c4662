#include "actors/subgraph_agent.hpp"

#include <algorithm>
#include <utility>

#include "actors/device.hpp"
#include "actors/kernel_key.hpp"
#include "actors/llm/patterns.hpp"
#include "actors/llm/seeds.hpp"
#include "actors/outcome.hpp"
#include "actors/session_files.hpp"

namespace weft {
namespace {

/// The port waits a few seconds for other processes at most.
constexpr std::int64_t kKeepMs = 20'000;
/// Of one source, for one subgraph.
constexpr int kRepliesMax = 1'000;
/// Work that two locations went down with is not given to a third.
constexpr int kLocationsLostMax = 2;
/// The library remembers of no more seeds that they were outdone.
constexpr std::size_t kSupersededMax = 256;

std::string first_reason(const std::map<std::string, SeedResult>& results) {
  for (const auto& [id, result] : results) {
    if (result.failure) return id + ": " + result.failure.message;
    if (!result.verdict.correct) return id + ": " + result.verdict.reason;
  }
  return "";
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::ranges::find(list, text) != list.end();
}

}  // namespace

void SubgraphAgent::receive(const Address& from, const Message& message,
                            Context& context) {
  if (over_) return;
  if (done_) {
    // Whatever the library or the disk says: the verdict stands.
    if (const auto end = effects_.receive(message, context)) {
      if (end->failure) {
        context.send(address::user,
                     Progress{done_->subgraph, "keep",
                              "not kept: " + end->failure.message});
      }
      if (effects_.idle()) leave(context);
    }
    return;
  }
  if (const auto* work = std::get_if<OptimizeSubgraph>(&message)) {
    work_ ? take_locations(*work, context) : begin(*work, context);
  } else if (const auto* stop = std::get_if<StopSearch>(&message)) {
    if (work_) stop_search(stop->reason, context);
  } else if (const auto* reply = std::get_if<SeedsReply>(&message)) {
    seeds_came(*reply, context);
  } else if (const auto* result = std::get_if<SeedResult>(&message)) {
    result_came(from, *result, context);
  }
}

void SubgraphAgent::begin(const OptimizeSubgraph& work, Context& context) {
  work_ = work;
  model_.begin(work.options);
  for (const std::string& source : work.options.seeds) {
    if (source == kLlmSource) continue;  // it is told what the others found
    if (!sources_open_.insert(source).second) continue;
    context.send(address::seeds(source), SeedsRequest{work});
  }
  context.send(address::user, Progress{work.subgraph, "seeds", work.type});
  decide(context);
}

/// Nodes joined, or are back: a place that went is named again.
void SubgraphAgent::take_locations(const OptimizeSubgraph& work,
                                   Context& context) {
  if (work.locations.size() <= work_->locations.size()) return;
  work_->locations = work.locations;
  if (!stranded_) return;
  stranded_.reset();
  if (!asks_.empty()) send_asks(context);
  move(context);
}

void SubgraphAgent::stop_search(const std::string& why, Context& context) {
  out_of_time_ = why;
  if (stranded_) {
    const SeedResult loss = *std::exchange(stranded_, {});
    return end_without_location(loss, context);
  }
  // Where nothing is cancelled (an old journal's run), nobody answers.
  if (!settled_ && !work_->locations.empty()) ending_ = unjudged();
  if (!final_.empty()) stop(final_, why, context);
  if (!asks_.empty()) stop(compared_, why, context);
  asks_.clear();
  stop_others(why, context);
  decide(context);
}

void SubgraphAgent::seeds_came(const SeedsReply& reply, Context& context) {
  if (reply.origin == kLlmSource) {
    if (model_.open() == 0) return;
    model_.replied(reply);
    if (reply.failure) {
      error_text_ = reply.failure.message;
      context.send(address::user,
                   Progress{work_->subgraph, "llm", reply.failure.message});
    }
    for (const Seed& seed : reply.seeds) verify(seed, context);
    return decide(context);
  }
  if (!sources_open_.contains(reply.origin)) return;
  if (!reply.more || ++replies_[reply.origin] >= kRepliesMax) {
    sources_open_.erase(reply.origin);
  }
  if (settled_) return;
  if (reply.failure) error_text_ = reply.failure.message;
  if (reply.origin == kLibrarySource) {
    can_keep_ = !reply.failure;
    known_ = reply.known;
    patterns_ = reply.patterns;
    for (const Seed& seed : reply.seeds) {
      known_id_ = seed.id;
      verify(seed, context);
    }
  } else {
    waiting_.insert(waiting_.end(), reply.seeds.begin(), reply.seeds.end());
  }
  start_waiting(context);
  decide(context);
}

void SubgraphAgent::verify(const Seed& seed, Context& context) {
  if (!seeds_.emplace(seed.id, seed).second) return;
  VerifySeed order{work_->subgraph, work_->graph,   seed,
                   work_->options,  work_->machine, seed.id == known_id_};
  order.placed = !work_->locations.empty();
  order.location = location();
  order.device_class = work_->device_class;
  order.device_bytes = work_->device_bytes;
  order.expected_gain = expected_gain(seeds_.size());
  context.send(worker(seed.id), std::move(order));
  if (seed.id != known_id_) return;
  context.send(address::user, Progress{work_->subgraph, "verify",
                                       "the library's " + seed.variant});
}

/// The first kernel took half of eager's time away, the second 3 %, the third
/// 1 %, the fourth 0.5 % (107 subgraphs of whole models, H200, 2026-11-27).
std::int64_t SubgraphAgent::expected_gain(std::size_t look) const {
  const auto nth = static_cast<std::int64_t>(look);
  if (look == 1 || work_->expected_gain == 0) return work_->expected_gain;
  return std::max<std::int64_t>(1,
                                work_->expected_gain / (2 * nth * nth * nth));
}

/// The library's kernel is judged alone: it may spare the others.
void SubgraphAgent::start_waiting(Context& context) {
  if (waiting_.empty() || settled_ || awaits_library()) return;
  const SeedResult* known = of_library();
  const bool is_judged = known && !known->failure;
  std::size_t started = 0;
  for (const Seed& seed : std::exchange(waiting_, {})) {
    const bool is_known =
        seed.source == known_.source && seed.target == known_.target;
    const bool is_superseded =
        holds_ && contains(known_.superseded, seed.source);
    if (is_judged && (is_known || is_superseded)) continue;
    verify(seed, context);
    ++started;
  }
  if (started == 0) return;
  context.send(address::user, Progress{work_->subgraph, "verify",
                                       std::to_string(started) + " seeds"});
}

void SubgraphAgent::result_came(const Address& from, const SeedResult& result,
                                Context& context) {
  if (!seeds_.contains(result.seed.id)) return;
  locations_lost_[result.seed.id] += result.locations_lost;
  if (is_elsewhere(result) || stranded_) return;
  // The same place before it went.
  if (work_->may_gain_locations && location_index_ > 0 &&
      from != worker(result.seed.id)) {
    return;
  }
  const bool was_ending = ending_.erase(result.seed.id) > 0;
  if (was_ending && result.failure) return decide(context);
  if (result.failure.code == "node_lost") return location_lost(result, context);
  if (!asks_.empty() && result.seed.id == compared_) {
    return compared(result, context);
  }
  const bool last_timing = result.seed.id == final_;
  const bool late = settled_ || results_.contains(result.seed.id);
  if (!last_timing && !was_ending && late) return;
  results_[result.seed.id] = result;
  judged_us_[result.seed.id] = context.now_us();
  if (result.seed.id == known_id_) return known_judged(result, context);
  if (was_ending) return decide(context);
  if (!last_timing) {
    if (result.seed.origin == kLlmSource &&
        is_at_floor(result, work_->machine)) {
      stop_model("a kernel at the floor", context);
    }
    if (is_at_roofline(result)) {
      stop_others("another kernel is near the floor", context);
    } else if (result.verdict.correct &&
               !can_time(work_->options, work_->machine)) {
      stop_others("another kernel is right, and none can be timed", context);
    }
    return decide(context);
  }
  if (!result.verdict.correct || !result.timed) {
    // What was right and fast is neither any more: look at the next best.
    final_.clear();
    return decide(context);
  }
  conclude(context);
}

void SubgraphAgent::known_judged(const SeedResult& result, Context& context) {
  const bool is_right = result.verdict.correct && result.timed;
  holds_ = !result.failure && is_right && holds(result.timing, known_);
  std::string what = "its kernel is as fast as it was";
  if (result.failure) {
    what = "its kernel could not be verified: " + result.failure.message;
  } else if (!is_right) {
    what = "its kernel is " + result.verdict.kind + ", and goes";
  } else if (!holds_) {
    what = "its kernel is slower than it was";
  }
  context.send(address::user, Progress{work_->subgraph, "library", what});
  start_waiting(context);
  decide(context);
}

void SubgraphAgent::stop_others(const std::string& why, Context& context) {
  settled_ = true;
  stop_model(why, context);
  for (const std::string& id : unjudged()) stop(id, why, context);
  if (work_->locations.empty()) return;
  for (const std::string& source : std::exchange(sources_open_, {})) {
    context.send(address::seeds(source), StopSeed{why, true});
  }
}

void SubgraphAgent::stop(const std::string& seed, const std::string& why,
                         Context& context) {
  context.send(worker(seed), StopSeed{why, !work_->locations.empty()});
}

std::set<std::string> SubgraphAgent::unjudged() const {
  std::set<std::string> all;
  for (const auto& [id, seed] : seeds_) {
    if (!results_.contains(id)) all.insert(id);
  }
  return all;
}

Location SubgraphAgent::location() const {
  return work_->locations.empty() ? Location()
                                  : work_->locations[location_index_];
}

/// A worker for each location that the seed is verified at.
Address SubgraphAgent::worker(const std::string& seed) const {
  const std::string again =
      location_index_ == 0 ? "" : "." + std::to_string(location_index_);
  return address::worker(work_->subgraph, seed + again);
}

bool SubgraphAgent::is_elsewhere(const SeedResult& result) const {
  return !work_->locations.empty() && result.location != location();
}

/// Times of one device say nothing of another's: what is right is verified
/// anew where the subgraph goes on. Where there is no such location, what is
/// known already decides.
void SubgraphAgent::location_lost(const SeedResult& result, Context& context) {
  const std::string reason = result.failure.message;
  if (location_index_ + 1 < work_->locations.size()) {
    // What waited for a timing there is asked without it.
    if (!asks_.empty()) send_asks(context);
    return move(context);
  }
  if (may_get_location()) {
    stranded_ = result;
    for (const std::string& id : unjudged()) {
      stop(id, "its place is gone", context);
    }
    context.send(address::user, Progress{work_->subgraph, "waits",
                                         "for another node: " + reason});
    return;
  }
  end_without_location(result, context);
}

/// The head's own devices do not come back.
bool SubgraphAgent::may_get_location() const {
  return work_->may_gain_locations && out_of_time_.empty() && !settled_ &&
         std::ranges::none_of(work_->locations, [](const Location& location) {
           return node_of(location).empty();
         });
}

/// The results so far decide.
void SubgraphAgent::end_without_location(const SeedResult& result,
                                         Context& context) {
  const std::string reason = result.failure.message;
  context.send(address::user, Progress{work_->subgraph, "node_lost", reason});
  settled_ = true;
  // Whatever a language model wrote, it could not be judged: it costs nothing
  // more.
  asks_.clear();
  stop_model(reason, context);
  for (const auto& [id, seed] : seeds_) {
    if (results_.contains(id)) continue;
    if (id != result.seed.id) stop(id, reason, context);
    results_[id] = result;
    results_[id].seed = seed;
  }
  if (!final_.empty()) return conclude(context);
  waiting_.clear();
  decide(context);
}

void SubgraphAgent::move(Context& context) {
  std::vector<Seed> again;
  for (const auto& [id, seed] : seeds_) {
    const auto result = results_.find(id);
    const bool is_judged = result != results_.end();
    if (is_judged && !result->second.verdict.correct) continue;
    if (!is_judged) stop(id, "its place is gone", context);
    results_.erase(id);
    again.push_back(seed);
  }
  ++location_index_;
  final_.clear();
  settled_ = false;
  context.send(address::user, Progress{work_->subgraph, "moves",
                                       "to " + location_name(location()) +
                                           ": " + std::to_string(again.size()) +
                                           " seeds are verified anew"});
  for (const Seed& seed : again) {
    if (locations_lost_[seed.id] >= kLocationsLostMax) {
      SeedResult& result = results_[seed.id];
      result.seed = seed;
      result.location = location();
      result.failure = {"node_lost", "two places went while they worked on it"};
      continue;
    }
    seeds_.erase(seed.id);
    verify(seed, context);
  }
  decide(context);
}

/// Once all that there is has been judged. False: nothing is asked any more.
bool SubgraphAgent::ask_model(Context& context) {
  const SeedResult* best = fastest();
  asks_ = model_.next(*work_, results_, best);
  if (asks_.empty()) return false;
  // It is told what torch.compile takes, too: measured once, beside the first
  // kernel that is right.
  if (work_->options.compile_baseline && best && compared_.empty()) {
    compared_ = best->seed.id;
    context.send(address::user,
                 Progress{work_->subgraph, "time",
                          "beside torch.compile, for the model"});
    context.send(worker(compared_), TimeSeed{work_->options.timing_ms, true,
                                             expected_gain(seeds_.size() + 1)});
  } else {
    send_asks(context);
  }
  return true;
}

/// What came of timing the best one beside torch.compile.
void SubgraphAgent::compared(const SeedResult& result, Context& context) {
  // Where that did not work, what was known before stands.
  if (!result.failure) {
    results_[result.seed.id] = result;
    compile_ = result.timing.compile;
  }
  const SeedResult* best = fastest();
  for (RefineRequest& ask : asks_) {
    ask.best = best ? *best : SeedResult();
    const auto parent = results_.find(ask.seed.id);
    if (parent != results_.end()) ask.result = parent->second;
  }
  send_asks(context);
}

void SubgraphAgent::send_asks(Context& context) {
  const std::string what = asked_text(asks_);
  for (RefineRequest& ask : std::exchange(asks_, {})) {
    Timing& timing = ask.best.timing;
    if (ask.best.timed && timing.compile.runs == 0) timing.compile = compile_;
    ask.patterns = patterns_;
    context.send(address::seeds(kLlmSource), std::move(ask));
  }
  context.send(address::user, Progress{work_->subgraph, "llm", what});
}

void SubgraphAgent::stop_model(const std::string& why, Context& context) {
  if (model_.open() > 0) {
    context.send(address::seeds(kLlmSource), StopSeed{why});
  }
  model_.end(model_.summary().rounds == 0 ? "not asked: " + why : why);
}

void SubgraphAgent::decide(Context& context) {
  if (stranded_) return;
  const bool waits = !sources_open_.empty() || model_.open() > 0 ||
                     results_.size() < seeds_.size();
  if (settled_ ? !ending_.empty() : waits) return;
  if (out_of_time_.empty() && ask_model(context)) return;
  if (!can_time(work_->options, work_->machine)) {
    if (const SeedResult* seed_result = first_right()) {
      final_ = seed_result->seed.id;
      return finish("proven", kNotTimed, context);
    }
  }
  if (const SeedResult* best = fastest()) {
    final_ = best->seed.id;
    // The last timing would be the one that it has.
    if (final_ == known_id_ || !looks_longer(work_->options) ||
        !out_of_time_.empty()) {
      return conclude(context);
    }
    context.send(address::user,
                 Progress{work_->subgraph, "time", best->seed.variant});
    context.send(worker(final_), TimeSeed{last_timing_ms(work_->options),
                                          work_->options.compile_baseline,
                                          expected_gain(seeds_.size() + 1)});
    return;
  }
  const bool none_judged = results_.empty();
  if (none_judged && !out_of_time_.empty()) {
    return finish("failed", out_of_time_, context);
  }
  if (seeds_.empty()) {
    finish("failed", error_text_.empty() ? "no seeds" : error_text_, context);
    return;
  }
  // Nothing is known of the results of a kernel that did not answer.
  bool judged = false;
  for (const auto& [id, result] : results_) {
    judged |= !result.failure && result.verdict.kind != "timed_out";
  }
  finish(judged ? "wrong" : "failed", first_reason(results_), context);
}

void SubgraphAgent::conclude(Context& context) {
  const bool won = faster_than_eager(results_.at(final_).timing);
  std::string reason = won ? "" : "not faster than eager beyond noise";
  if (!out_of_time_.empty()) {
    reason += (reason.empty() ? "" : "; ") + out_of_time_;
  }
  finish(won ? "won" : "not_faster", reason, context);
}

/// Of the compiler's own only: another's speed may yet turn out to be a cheat.
bool SubgraphAgent::is_at_roofline(const SeedResult& result) const {
  return result.seed.origin == "compiler" &&
         is_at_floor(result, work_->machine);
}

bool SubgraphAgent::awaits_library() const {
  return sources_open_.contains(kLibrarySource) ||
         (!known_id_.empty() && !of_library());
}

const SeedResult* SubgraphAgent::of_library() const {
  const auto found = results_.find(known_id_);
  return found == results_.end() ? nullptr : &found->second;
}

const SeedResult* SubgraphAgent::fastest() const {
  const SeedResult* best = nullptr;
  for (const auto& [id, result] : results_) {
    if (!result.verdict.correct || !result.timed) continue;
    if (is_elsewhere(result)) continue;
    if (!best || is_faster(result.timing, best->timing)) best = &result;
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
  SubgraphDone done;
  done.subgraph = work_->subgraph;
  done.outcome = std::move(outcome);
  done.reason = std::move(reason);
  if (!final_.empty()) done.best = results_.at(final_);
  done.seeds = static_cast<int>(seeds_.size());
  for (const auto& [id, result] : results_)
    done.correct += result.verdict.correct;
  done.llm = model_.summary();
  if (done.llm.rounds > 0) done.llm.tries = LlmSearch::tries(results_);
  done_ = std::move(done);
  const bool keeps = keep(context);
  const bool writes = write_session(context);
  if (!keeps && !writes) leave(context);
}

/// False when no language model was asked.
bool SubgraphAgent::write_session(Context& context) {
  if (done_->llm.rounds == 0) return false;
  std::map<std::string, SessionTry> tries;
  for (const auto& [id, result] : results_) {
    const auto at = judged_us_.find(id);
    tries[id] = {result, at == judged_us_.end() ? 0 : at->second};
  }
  auto files = session_files(*work_, *done_, tries, context.blobs());
  if (!files) return false;
  WriteFilesRequest request;
  request.files = std::move(*files);
  effects_.start(address::files, request, {"disk", 1, work_->subgraph, kDiskMs},
                 context);
  return true;
}

/// False when there is nothing to tell the library.
bool SubgraphAgent::keep(Context& context) {
  if (!can_keep_ || done_->outcome == "proven") return false;
  KeepKernelRequest request;
  request.key = kernel_key(*work_);
  if (done_->outcome == "won" || done_->outcome == "not_faster") {
    request.kernel = as_known(done_->best);
    if (final_ == known_id_) request.kernel.origin = known_.origin;
    request.kernel.superseded = superseded();
  }
  if (done_->outcome == "won") {
    auto pattern =
        winning_pattern(*work_, results_, done_->best, context.blobs());
    if (pattern) request.pattern = std::move(*pattern);
  }
  // Outdone or wrong, it goes. What could not be verified stays.
  const SeedResult* known = of_library();
  const bool is_judged = known && !known->failure;
  if (is_judged) request.judged = known_.source;
  if (request.kernel.source.empty() && !is_judged) return false;
  effects_.start(address::library, request,
                 {"disk", 1, work_->subgraph, kKeepMs}, context);
  return true;
}

/// The sources that were not better than the best one: those that were judged,
/// and those that were not worth it.
std::vector<std::string> SubgraphAgent::superseded() const {
  std::set<std::string> all;
  if (holds_) all.insert(known_.superseded.begin(), known_.superseded.end());
  for (const auto& [id, seed] : seeds_) {
    const auto result = results_.find(id);
    const bool is_judged = result != results_.end();
    // Nothing is known of what there was no time for.
    const bool counts =
        is_judged ? !result->second.failure : out_of_time_.empty();
    if (counts) all.insert(seed.source);
  }
  if (settled_ && out_of_time_.empty()) {
    for (const Seed& seed : waiting_) all.insert(seed.source);
  }
  all.erase(done_->best.seed.source);
  std::vector<std::string> list(all.begin(), all.end());
  list.resize(std::min(list.size(), kSupersededMax));
  return list;
}

void SubgraphAgent::leave(Context& context) {
  over_ = true;
  context.send(address::user,
               Progress{done_->subgraph, done_->outcome, done_->reason});
  context.send(address::dispatcher, *done_);
}

}  // namespace weft
