#include "actors/composer.hpp"

#include <algorithm>
#include <utility>

#include "actors/device.hpp"
#include "actors/outcome.hpp"
#include "actors/result_json.hpp"
#include "compiler/compose/compose.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

constexpr int tries = 2;
constexpr std::int64_t check_wall_ms = 900'000;
constexpr std::int64_t compile_wall_ms = 600'000;
constexpr std::int64_t autotune_wall_ms = 1'800'000;
constexpr std::int64_t probe_wall_ms = 120'000;
constexpr std::int64_t lease_slack_ms = 30'000;

}  // namespace

void Composer::receive(const Address&, const Message& message,
                       Context& context) {
  if (over_) return;
  if (const auto* compose = std::get_if<Compose>(&message)) {
    if (!compose_) begin(*compose, context);
  } else if (const auto end = errands_.receive(message, context)) {
    ended(*end, context);
  }
}

/// What was checked is what is timed and written.
void Composer::recall(const Message& recorded) {
  if (const auto* check = std::get_if<CheckRequest>(&recorded)) {
    source_ = check->subject.source;
  }
  errands_.recall(recorded);
}

void Composer::begin(const Compose& compose, Context& context) {
  compose_ = compose;
  report_.run = compose.run;
  report_.subgraphs = compose.results;
  const auto text = context.blobs().get(compose.plan);
  if (!text) return give_up({"failed", text.error().message}, context);
  auto plan = parse_plan(*text);
  if (!plan) return give_up({"failed", plan.error().message}, context);
  plan_ = std::move(*plan);
  for (const SubgraphDone& result : compose_->results) {
    const bool usable = result.outcome == "won" || result.outcome == "proven";
    if (usable) chosen_.push_back(&result);
  }
  attempt(context);
}

void Composer::attempt(Context& context) {
  const auto problem = context.blobs().get(compose_->run.problem);
  if (!problem) return give_up({"failed", problem.error().message}, context);
  std::map<std::string, ComposedKernel> kernels;
  for (const SubgraphDone* result : chosen_) {
    const auto source = context.blobs().get(result->best.seed.source);
    if (!source) return give_up({"failed", source.error().message}, context);
    const Target* target = find_target(result->best.seed.target);
    if (!target) return give_up({"failed", "a kernel of no target"}, context);
    kernels[result->subgraph] = {*source, result->best.seed.variant, target};
  }
  const auto text = compose_source(*problem, plan_, kernels);
  if (!text) return give_up({"failed", text.error().message}, context);
  source_ = context.blobs().put(*text);
  was_slower_ = false;
  context.send(address::user,
               Progress{"", "compose",
                        "checking ModelNew with " +
                            std::to_string(chosen_.size()) + " kernels"});
  const RunOptions& options = compose_->run.options;
  CheckRequest request;
  request.subject = {"model", compose_->run.problem, source_};
  request.seed = options.seed;
  request.call_ms = options.call_ms;
  request.memory_bytes = options.memory_bytes;
  request.wall_ms = check_wall_ms;
  start(address::verify, request, all_units, request.wall_ms, context);
}

std::uint64_t Composer::start(const Address& port, const Message& request,
                              int units, std::int64_t wall_ms,
                              Context& context) {
  const RunStart& run = compose_->run;
  LeaseTerms terms;
  terms.resource = device_resource(run.machine);
  terms.units = units;
  terms.ttl_ms = wall_ms + lease_slack_ms;
  terms.places = head_places(run);
  if (knows_places(run) && !run.machine.gpus.empty()) {
    terms.memory_bytes = device_bytes(plan_.model);
  }
  return errands_.start(port, request, terms, context, tries);
}

void Composer::ended(const ErrandEnd& end, Context& context) {
  if (end.id == probe_) {
    // A report without the machine's bandwidth is still a report.
    return probed(end.failure ? nullptr : &std::get<ProbeReply>(*end.reply),
                  context);
  }
  if (end.failure && end.id == timing_) {
    if (was_slower_) return drop_all(context);
    report_.notes.push_back("Verified, but not timed: " + end.failure.message);
    take_all();
    return probed(nullptr, context);
  }
  if (end.failure) return give_up(end.failure, context);
  if (const auto* reply = std::get_if<CheckReply>(&*end.reply)) {
    checked(reply->verdict, context);
  } else if (const auto* reply = std::get_if<TimeReply>(&*end.reply)) {
    timed(*reply, context);
  } else {
    over_ = true;  // the files are written: the run is over
    context.send(address::user, RunFinished{report_.verdict.correct ? 0 : 1,
                                            summary_line(report_)});
  }
}

void Composer::checked(const Verdict& verdict, Context& context) {
  report_.verdict = verdict;
  if (!verdict.correct) return drop_some(verdict.reason, context);
  if (!can_time(compose_->run.options, compose_->run.machine)) {
    take_all();
    return probed(nullptr, context);
  }
  time(context);
}

void Composer::time(Context& context) {
  const RunOptions& options = compose_->run.options;
  context.send(address::user,
               Progress{"", "time",
                        was_slower_ ? "timing ModelNew again: it was slower"
                                    : "timing ModelNew"});
  TimeRequest request;
  request.subject = {"model", compose_->run.problem, source_};
  request.seed = options.seed;
  request.with_compile = options.compile_baseline;
  request.with_autotune = options.autotune_baseline;
  request.budget_ms = options.final_timing_ms;
  request.call_ms = options.call_ms;
  request.memory_bytes = options.memory_bytes;
  request.wall_ms = check_wall_ms + request.budget_ms +
                    (request.with_compile ? compile_wall_ms : 0) +
                    (request.with_autotune ? autotune_wall_ms : 0);
  timing_ =
      start(address::verify, request, all_units, request.wall_ms, context);
}

void Composer::timed(const TimeReply& reply, Context& context) {
  if (!reply.rejected.empty()) {
    report_.verdict.correct = false;
    report_.verdict.kind = "cheated";
    report_.verdict.reason = reply.rejected;
    return drop_some(reply.rejected, context);
  }
  if (slower_than_eager(reply.timing) && !chosen_.empty()) {
    if (!std::exchange(was_slower_, true)) return time(context);
    return drop_all(context);
  }
  if (was_slower_) {
    report_.notes.push_back("Timed twice: the first time it was slower.");
  }
  report_.timing = reply.timing;
  take_all();
  probe_ = start(address::verify, ProbeRequest{0, probe_wall_ms}, all_units,
                 probe_wall_ms, context);
}

void Composer::drop_all(Context& context) {
  report_.notes.push_back(
      "The composition with kernels was right but slower than eager: "
      "the framework's forward stays.");
  chosen_.clear();
  attempt(context);
}

void Composer::take_all() {
  for (const SubgraphDone* result : chosen_) {
    report_.used.insert(result->subgraph);
  }
}

void Composer::drop_some(const std::string& why, Context& context) {
  if (chosen_.empty()) {
    report_.notes.push_back("Even with no kernel of ours: " + why);
    return probed(nullptr, context);
  }
  // The kernels that came nearest to their tolerance are dropped first.
  const auto closeness = [](const SubgraphDone* done) {
    const Verdict& verdict = done->best.verdict;
    return verdict.tolerance > 0 ? verdict.max_error / verdict.tolerance : 0;
  };
  std::stable_sort(chosen_.begin(), chosen_.end(),
                   [&](const auto* a, const auto* b) {
                     return closeness(a) < closeness(b);
                   });
  const std::size_t kept = chosen_.size() / 2;
  report_.rejected += static_cast<int>(chosen_.size() - kept);
  for (std::size_t i = kept; i < chosen_.size(); ++i) {
    report_.notes.push_back("Dropped " + chosen_[i]->subgraph +
                            " from the composition: " + why);
  }
  chosen_.resize(kept);
  attempt(context);
}

void Composer::probed(const ProbeReply* reply, Context& context) {
  if (reply) report_.machine = *reply;
  Blobs& blobs = context.blobs();
  WriteFilesRequest files;
  files.files = {
      {"report.md", blobs.put(report_markdown(report_, plan_))},
      {"results.csv", blobs.put(results_csv(report_, plan_))},
      {"result.json", blobs.put(result_json(report_, plan_))},
  };
  if (report_.verdict.correct) {
    files.files.push_back({"composed/model_new.py", source_});
  }
  errands_.start(address::files, files, {"disk", 1, "", 60'000}, context,
                 tries);
}

void Composer::give_up(const Failure& failure, Context& context) {
  over_ = true;
  context.send(address::user,
               RunFinished{exit_code_of(failure), failure.message});
}

}  // namespace weft
