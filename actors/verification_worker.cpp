#include "actors/verification_worker.hpp"

#include <utility>

#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "actors/outcome.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/python/inductor.hpp"

namespace weft {
namespace {

constexpr int kTries = 2;
constexpr std::int64_t kBuildWallMs = 180'000;
/// Oracle work in a check: references in float64, comparisons, a cold start.
constexpr std::int64_t kCheckWallMs = 240'000;
/// torch.compile builds C++ of its own.
constexpr std::int64_t kCompileWallMs = 300'000;
/// The port answers within its limit; the lease is its safety net.
constexpr std::int64_t kLeaseSlackMs = 30'000;

}  // namespace

void VerificationWorker::receive(const Address& from, const Message& message,
                                 Context& context) {
  if (const auto* order = std::get_if<StopSeed>(&message)) {
    if (!stopped_) stop(*order, context);
  } else if (const auto* work = std::get_if<VerifySeed>(&message)) {
    if (work_ || stopped_) return;
    work_ = *work;
    agent_ = from;
    result_.seed = work->seed;
    result_.location = work->location;
    result_.device_class = work->device_class;
    build(context);
  } else if (const auto* again = std::get_if<TimeSeed>(&message)) {
    if (!work_ || stopped_ || !effects_.idle()) return;
    result_.failure = {};  // of a timing before
    work_->expected_gain = again->expected_gain;
    time(again->budget_ms, again->with_compile, context);
  } else if (const auto end = effects_.receive(message, context)) {
    if (!stopped_ || timing_) ended(*end, context);
  }
}

void VerificationWorker::stop(const StopSeed& order, Context& context) {
  stopped_ = true;
  const bool owes_answer = !effects_.idle();
  if (order.cancel) {
    effects_.cancel(order.reason, context);
  } else {
    effects_.withdraw(context);
  }
  const bool ends_timing = order.cancel && timing_ && !effects_.idle();
  timing_ = ends_timing;
  if (!order.cancel || !owes_answer || ends_timing) return;
  result_.failure = {"cancelled", order.reason};
  result_.timed = false;
  report(context);
}

void VerificationWorker::build(Context& context) {
  BuildRequest request;
  request.target = work_->seed.target;
  // Whoever gave the seed: the library may have it of another run.
  if (work_->options.no_extern && request.target == kInductorTarget) {
    request.target = kInductorOwn;
  }
  request.source = work_->seed.source;
  request.wall_ms = kBuildWallMs;
  LeaseTerms terms;
  if (work_->placed && !work_->machine.gpus.empty()) {
    request.arch = work_->machine.gpus.front().arch;
  }
  // Where it is verified. The head gets what a node has built: the module that
  // is composed of it is checked there.
  // Others may build for it, if there are such that can do no more than that.
  if (work_->placed) terms.locations = {node_of(work_->location)};
  if (!work_->device_class.empty()) {
    terms.capability = capability::build(work_->seed.target);
  }
  start(address::build, request, std::move(terms), kBuildWallMs, context);
}

Subject VerificationWorker::subject() const {
  return {work_->seed.target, work_->graph, work_->seed.source, artefact_};
}

/// Checks and timings of one subgraph are all at one location.
LeaseTerms VerificationWorker::verify_terms(int units) const {
  LeaseTerms terms;
  terms.resource = device_resource(work_->machine);
  terms.units = units;
  if (work_->placed) terms.locations = {work_->location};
  terms.memory_bytes = work_->device_bytes;
  return terms;
}

void VerificationWorker::check(const std::string& graph, Context& context) {
  CheckRequest request;
  request.subject = subject();
  request.subject.against = graph;
  request.random_seed = work_->options.random_seed;
  request.call_ms = work_->options.call_ms;
  request.memory_bytes = work_->options.memory_bytes;
  request.wall_ms = kCheckWallMs + 2 * work_->options.call_ms;
  start(address::verify, request, verify_terms(1), request.wall_ms, context);
}

void VerificationWorker::time(std::int64_t budget_ms, bool with_compile,
                              Context& context) {
  timing_ = true;
  TimeRequest request;
  request.subject = subject();
  request.random_seed = work_->options.random_seed;
  request.with_compile = with_compile;
  request.budget_ms = budget_ms;
  request.call_ms = work_->options.call_ms;
  request.memory_bytes = work_->options.memory_bytes;
  request.wall_ms = kCheckWallMs + budget_ms + 2 * request.call_ms +
                    (with_compile ? kCompileWallMs : 0);
  start(address::verify, request, verify_terms(kAllUnits), request.wall_ms,
        context);
}

void VerificationWorker::start(const Address& port, const Message& request,
                               LeaseTerms terms, std::int64_t wall_ms,
                               Context& context) {
  terms.group = work_->subgraph;
  terms.ttl_ms = wall_ms + kLeaseSlackMs;
  terms.priority = work_->seed.round;
  terms.expected_gain = work_->expected_gain;
  effects_.start(port, request, terms, context, kTries);
}

void VerificationWorker::ended(const EffectResult& end, Context& context) {
  result_.locations_lost += end.locations_lost;
  if (end.reply && std::holds_alternative<BuildReply>(*end.reply)) {
    return built(std::get<BuildReply>(*end.reply), context);
  }
  if (end.failure) {
    result_.failure = end.failure;
    result_.timed = false;
    return report(context);
  }
  if (const auto* reply = std::get_if<CheckReply>(&*end.reply)) {
    checked(*reply, context);
  } else if (const auto* reply = std::get_if<TimeReply>(&*end.reply)) {
    timed(*reply, context);
  }
}

void VerificationWorker::built(const BuildReply& reply, Context& context) {
  result_.build_log = reply.log;
  if (!reply.failure) {
    result_.built = true;
    artefact_ = reply.artefact;
    if (!work_->device_class.empty()) result_.artefact = artefact_;
    return check(work_->graph, context);
  }
  if (reply.failure.code == "wrong_input") {
    result_.verdict.kind = "not_built";
    result_.verdict.reason = reply.failure.message;
  } else {
    result_.failure = reply.failure;
  }
  report(context);
}

/// By another size than its own.
void VerificationWorker::refute(Verdict verdict) {
  result_.verdict = std::move(verdict);
  result_.verdict.reason =
      "at " + sizes_text(sizes_) + ": " + result_.verdict.reason;
}

/// False: it has been right at all of them, or is for one alone.
bool VerificationWorker::check_another_size(Context& context) {
  if (!work_->options.dynamic_batch) return false;
  const auto text = context.blobs().get(work_->graph);
  const auto graph =
      text ? parse_graph(*text) : Result<Graph>(std::unexpected(text.error()));
  if (!graph || !graph->symbolic_shapes.is_symbolic()) return false;
  if (sizes_.empty()) judged_ = judged_sizes(graph->symbolic_shapes.sizes);
  if (judged_.empty()) return false;
  sizes_ = judged_.front();
  judged_.erase(judged_.begin());
  const auto at = graph_at(*graph, sizes_);
  if (at) {
    check(context.blobs().put(graph_to_json(*at)), context);
  } else {
    Verdict none = result_.verdict;
    none.correct = false;
    none.kind = "wrong";
    none.reason = at.error().message;
    refute(std::move(none));
    report(context);
  }
  return true;
}

void VerificationWorker::checked(const CheckReply& reply, Context& context) {
  // The evidence is that of its own size, unless another refutes it.
  if (sizes_.empty()) result_.verdict = reply.verdict;
  if (!sizes_.empty() && !reply.verdict.correct) refute(reply.verdict);
  if (reply.verdict.correct && check_another_size(context)) return;
  const bool timed = can_time(work_->options, work_->machine);
  if (!reply.verdict.correct || !timed) return report(context);
  const RunOptions& options = work_->options;
  if (work_->thorough) {
    return time(last_timing_ms(options), options.compile_baseline, context);
  }
  time(options.timing_ms, false, context);
}

void VerificationWorker::timed(const TimeReply& reply, Context& context) {
  if (!reply.rejected.empty()) {
    result_.verdict.correct = false;
    result_.verdict.kind = "cheated";
    result_.verdict.reason = reply.rejected;
    result_.timed = false;
    return report(context);
  }
  result_.timed = true;
  result_.timing = reply.timing;
  report(context);
}

void VerificationWorker::report(Context& context) {
  context.send(agent_, result_);
  result_.locations_lost = 0;  // told
}

}  // namespace weft
