#include "actors/composer.hpp"

#include <algorithm>
#include <utility>

#include "actors/best_known.hpp"
#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "actors/llm/report.hpp"
#include "actors/number_text.hpp"
#include "actors/outcome.hpp"
#include "actors/result_json.hpp"
#include "actors/search_time.hpp"
#include "compiler/compose/compose.hpp"
#include "compiler/compose/problem_at.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

constexpr int kTries = 2;
constexpr std::int64_t kCheckWallMs = 900'000;
constexpr std::int64_t kCompileWallMs = 600'000;
constexpr std::int64_t kAutotuneWallMs = 1'800'000;
constexpr std::int64_t kProbeWallMs = 120'000;
constexpr std::int64_t kLeaseSlackMs = 30'000;
/// Where the run's time is limited: what a timing that is begun has at least …
constexpr std::int64_t kTimingWallMsMin = 20'000;
/// … and what is left where max-autotune is timed, too.
constexpr std::int64_t kAutotuneLeftMs = 300'000;
/// If less is left, the machine's bandwidth is not measured.
constexpr std::int64_t kProbeLeftMs = 5'000;
/// What is under way when the run's time is over is dropped so much later: a
/// check that is about to end is worth more than that. To write the files and
/// to end all processes takes about a second more, and a run may be late by 5
/// s.
constexpr std::int64_t kLateMsMax = 3'000;
constexpr std::int64_t kEarlierLateMsMax = 2'000;  ///< before these rules
/// Latest start of a timing of at most kBriefTimingMs, after the run's time. It
/// takes half a second for a small model. Without it, the module is delivered
/// as it was checked.
constexpr std::int64_t kLateTimingMs = 1'500;
constexpr std::int64_t kBriefTimingMs = 250;

}  // namespace

void Composer::receive(const Address&, const Message& message,
                       Context& context) {
  if (over_) return;
  const auto* fired = std::get_if<TimerFired>(&message);
  if (const auto* compose = std::get_if<Compose>(&message)) {
    if (!compose_) begin(*compose, context);
  } else if (fired && deadline_ > 0 && fired->effect == deadline_) {
    deliver_what_there_is(context);
  } else if (const auto end = effects_.receive(message, context)) {
    ended(*end, context);
  } else if (const auto* searched =
                 std::get_if<EagerContractionsSearched>(&message)) {
    eager_contractions_searched(*searched, context);
  }
}

/// What was checked is what is timed and written.
void Composer::recall(const Message& recorded) {
  if (const auto* check = std::get_if<CheckRequest>(&recorded)) {
    source_ = check->subject.source;
  }
  effects_.recall(recorded);
}

void Composer::begin(const Compose& compose, Context& context) {
  compose_ = compose;
  report_.run = compose.run;
  report_.subgraphs = compose.results;
  const auto text = context.blobs().get(compose.plan);
  if (!text) return give_up({"failed", text.error().message}, context);
  auto plan = parse_plan(*text);
  if (!plan) return give_up({"failed", plan.error().message}, context);
  const RunOptions& options = compose.run.options;
  if (!plan->eager_contractions_partition.empty())
    eager_contractions_ = std::move(plan->eager_contractions_partition.front());
  plan->eager_contractions_partition.clear();
  if (compose.ends_us > 0) {
    deadline_ = effects_.timer(
        std::max<std::int64_t>(0, left_ms(context)) +
            (spends_small_budgets(compose.run) ? kLateMsMax
                                               : kEarlierLateMsMax),
        context);
  }
  trials_.begin(std::move(*plan), times_module(options, compose.run.machine));
  choose_kernels();
  if (chosen_.empty() && !has_stand_ins() && go_on(context)) return;
  attempt(context);
}

/// Which are called without a kernel, too, as long as cuts are compared.
bool Composer::has_stand_ins() const {
  return trials_.is_open() && !plan_.fused_attention_calls.empty();
}

/// All that won in the cut at hand.
void Composer::choose_kernels() {
  plan_ = trials_.plan();
  choose_placed();
}

void Composer::choose_placed() {
  chosen_.clear();
  for (const auto* results :
       {&compose_->results, &eager_contractions_results_}) {
    for (const SubgraphDone& result : *results) {
      const bool is_placed =
          std::ranges::find(plan_.placements, result.subgraph,
                            &Placement::subgraph) != plan_.placements.end();
      if (has_won(result) && is_placed) chosen_.push_back(&result);
    }
  }
}

/// The cut at hand is done with. Tries the next one that has kernels, or takes
/// the fastest; false where none was right and timed, and there is no other.
bool Composer::go_on(Context& context) {
  if (!trials_.is_open()) return false;
  while (!is_late(context) && trials_.next()) {
    choose_kernels();
    if (chosen_.empty() && !has_stand_ins()) continue;
    attempt(context);
    return true;
  }
  std::optional<CutTrial> best = trials_.choose();
  report_.notes.push_back(trials_.summary());
  if (!best) return false;
  plan_ = trials_.plan();
  keeps_forward_ = false;
  chosen_ = std::move(best->chosen);
  source_ = std::move(best->source);
  report_.verdict = std::move(best->verdict);
  report_.timing = std::move(best->timing);
  settle(context);
  return true;
}

/// The whole is right, and timed if it can be.
void Composer::settle(Context& context) {
  is_settled_ = true;
  take_all();
  if (is_late(context)) return probed(nullptr, context);
  const bool has_far = wants_kernelbench(report_.verdict);
  if (has_far && !take_kernelbench_trial()) return seek(context);
  finish(context);
}

/// Till the run should be over; very long where nobody said.
std::int64_t Composer::left_ms(const Context& context) const {
  if (compose_->ends_us == 0) return std::int64_t{1} << 40;
  return (compose_->ends_us - context.now_us()) / 1'000;
}

bool Composer::has_time_to_time(const Context& context) const {
  const bool is_brief = spends_small_budgets(compose_->run) &&
                        compose_->run.options.final_timing_ms <= kBriefTimingMs;
  return left_ms(context) > (is_brief ? -kLateTimingMs : 0);
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
  if (stage_ == Stage::whole) {
    keeps_forward_ = chosen_.empty() && !has_stand_ins();
  }
  if (keeps_forward_ && stage_ == Stage::whole) {
    trials_.keep_model();
    plan_ = trials_.plan();
  }
  const Target* run_target = find_target(compose_->run.options.target);
  const auto text = compose_source(*problem, plan_, kernels,
                                   keeps_forward_ ? nullptr : run_target);
  if (!text && !plan_.model.symbolic_shapes.sizes.empty() &&
      stage_ == Stage::whole && !chosen_.empty()) {
    return drop_some("no module for any batch: " + text.error().message,
                     context);
  }
  if (!text && is_eager_contractions_) return kernelbench_settled(context);
  if (!text) return give_up({"failed", text.error().message}, context);
  was_slower_ = false;
  if (stage_ == Stage::whole) is_checked_ = false;
  const std::string source = context.blobs().put(*text);
  (stage_ == Stage::whole ? source_ : kernelbench_source_) = source;
  judged_.clear();
  sizes_.clear();
  if (!kernels.empty() && stage_ != Stage::seeking) {
    judged_ = judged_sizes(plan_.model.symbolic_shapes.sizes);
  }
  check(source, context);
}

Subject Composer::subject(const std::string& source) const {
  Subject subject{
      "model", sizes_.empty() ? compose_->run.problem : sized_problem_, source};
  if (compose_->run.options.mode != "as-is") {
    subject.mode = compose_->run.options.mode;
  }
  if (head_can(compose_->run, capability::judge)) return subject;
  for (const auto* results :
       {&compose_->results, &eager_contractions_results_}) {
    for (const SubgraphDone& done : *results) {
      if (!done.best.verdict.correct) continue;
      subject.kernels.push_back(
          {done.best.seed.target, done.best.seed.source, done.best.artefact});
    }
  }
  return subject;
}

/// False: it has been right at all of them, or is for one alone.
bool Composer::check_another_size(Context& context) {
  if (judged_.empty()) return false;
  const auto problem = context.blobs().get(compose_->run.problem);
  if (!problem) return false;  // it was there when the module was made of it
  sizes_ = judged_.front();
  judged_.erase(judged_.begin());
  sized_problem_ = context.blobs().put(
      problem_at(*problem, sizes_, symbolic_dims(compose_->run.options)));
  check(stage_ == Stage::whole ? source_ : kernelbench_source_, context);
  return true;
}

void Composer::check(const std::string& source, Context& context) {
  const std::string kernels = counted(chosen_.size(), "kernel");
  context.send(
      address::user,
      Progress{"", "compose",
               (stage_ == Stage::seeking ? "KernelBench's tolerance: " : "") +
                   ("checking ModelNew with " + kernels)});
  const RunOptions& options = compose_->run.options;
  CheckRequest request;
  request.subject = subject(source);
  request.rules = {rule::weft, rule::kernelbench};
  if (stage_ == Stage::seeking) request.rules = {rule::kernelbench};
  if (!sizes_.empty()) request.rules = {rule::weft};
  request.with_compile = options.compile_baseline && stage_ == Stage::whole &&
                         sizes_.empty() && left_ms(context) >= kCompileLeftMs;
  request.random_seed = options.random_seed;
  request.call_ms = options.call_ms;
  request.memory_bytes = options.memory_bytes;
  request.wall_ms = kCheckWallMs;
  making_ =
      start(address::verify, request, kAllUnits, request.wall_ms, context);
}

std::uint64_t Composer::start(const Address& port, const Message& request,
                              int units, std::int64_t wall_ms,
                              Context& context) {
  const RunStart& run = compose_->run;
  LeaseTerms terms;
  terms.resource = device_resource(run.machine);
  terms.units = units;
  terms.ttl_ms = wall_ms + kLeaseSlackMs;
  place(terms, run, capability::judge);
  if (knows_locations(run) && !run.machine.gpus.empty()) {
    terms.memory_bytes = device_bytes(plan_.model);
  }
  return effects_.start(port, request, terms, context, kTries);
}

void Composer::ended(const EffectResult& end, Context& context) {
  if (files_ > 0 && end.id != files_) return;  // it was dropped
  if (end.id == probe_) {
    // A report without the machine's bandwidth is still a report.
    return probed(end.failure ? nullptr : &std::get<ProbeReply>(*end.reply),
                  context);
  }
  if (end.failure && end.id == making_ && stage_ != Stage::whole) {
    report_.notes.push_back("With " + counted(chosen_.size(), "kernel") +
                            ", no module is within KernelBench's tolerance: " +
                            end.failure.message);
    if (!keeps_forward_) return drop_all(context);
    return kernelbench_settled(context);
  }
  if (end.failure && end.id == making_ && stage_ == Stage::whole &&
      trials_.is_open()) {
    report_.notes.push_back("Partition \"" + plan_.label +
                            "\": " + end.failure.message);
    if (go_on(context)) return;
  }
  if (end.failure && end.id == timing_) {
    if (was_slower_) return drop_all(context);
    report_.notes.push_back("Verified, but not timed: " + end.failure.message);
    take_all();
    return probed(nullptr, context);
  }
  if (end.failure) return give_up(end.failure, context);
  if (const auto* reply = std::get_if<CheckReply>(&*end.reply)) {
    // What is told of the module is told of the problem's own size.
    Verdict verdict = sizes_.empty() ? reply->verdict : std::move(verdict_);
    if (!sizes_.empty() && !reply->verdict.correct) {
      verdict = reply->verdict;
      verdict.reason =
          "at " + sizes_text(sizes_) + ": " + reply->verdict.reason;
    }
    verdict_ = verdict;
    if (verdict.correct && check_another_size(context)) return;
    sizes_.clear();
    if (stage_ == Stage::whole) return checked(verdict, context);
    return checked_kernelbench(verdict, context);
  }
  if (const auto* reply = std::get_if<TimeReply>(&*end.reply)) {
    if (stage_ == Stage::whole) return timed(*reply, context);
    timed_kernelbench(*reply, context);
  } else {
    over_ = true;  // the files are written: the run is over
    const int good = ran_out_of_budget(report_) ? kBudgetExitCode : 0;
    const std::string trouble = llm_trouble(report_);
    context.send(address::user,
                 RunFinished{report_.verdict.correct ? good : 1,
                             summary_line(report_) +
                                 (trouble.empty() ? trouble : "; " + trouble)});
  }
}

void Composer::checked(const Verdict& verdict, Context& context) {
  report_.verdict = verdict;
  if (!verdict.correct) return drop_some(verdict.reason, context);
  is_checked_ = true;
  const bool gives_way = compose_->run.options.accept == rule::kernelbench &&
                         wants_kernelbench(verdict);
  if (gives_way && trials_.is_open()) {
    if (go_on(context)) return;  // another cut's module may be near
    choose_kernels();
  }
  if (gives_way) return seek(context);
  const bool is_timed =
      times_module(compose_->run.options, compose_->run.machine);
  if (is_timed && has_time_to_time(context)) return time(context);
  if (is_timed && go_on(context)) return;
  if (is_timed) report_.notes.push_back(kOutOfTime);
  settle(context);
}

/// The modules of the plan's cuts are made.
void Composer::finish(Context& context) {
  if (may_search_eager_contractions(context))
    return ask_for_eager_contractions(context);
  probe_at_last(context);
}

/// All is composed: the machine is asked about.
void Composer::probe_at_last(Context& context) {
  if (!can_time(compose_->run.options, compose_->run.machine) ||
      left_ms(context) < kProbeLeftMs) {
    return probed(nullptr, context);
  }
  probe_ = start(address::verify, ProbeRequest{0, kProbeWallMs}, kAllUnits,
                 kProbeWallMs, context);
}

void Composer::time(Context& context) {
  const RunOptions& options = compose_->run.options;
  context.send(address::user,
               Progress{"", "time",
                        was_slower_ ? "timing ModelNew again: it was slower"
                                    : "timing ModelNew"});
  TimeRequest request;
  request.subject =
      subject(stage_ == Stage::whole ? source_ : kernelbench_source_);
  request.random_seed = options.random_seed;
  const std::int64_t left = left_ms(context);
  request.with_compile = options.compile_baseline && left >= kCompileLeftMs;
  request.with_autotune = options.autotune_baseline && left >= kAutotuneLeftMs;
  request.budget_ms = options.final_timing_ms;
  request.call_ms = options.call_ms;
  request.memory_bytes = options.memory_bytes;
  request.wall_ms = kCheckWallMs + request.budget_ms +
                    (request.with_compile ? kCompileWallMs : 0) +
                    (request.with_autotune ? kAutotuneWallMs : 0);
  request.wall_ms = std::min(request.wall_ms, std::max(left, kTimingWallMsMin));
  making_ = timing_ =
      start(address::verify, request, kAllUnits, request.wall_ms, context);
}

void Composer::timed(const TimeReply& reply, Context& context) {
  if (!reply.rejected.empty()) {
    report_.verdict.correct = false;
    report_.verdict.kind = "cheated";
    report_.verdict.reason = reply.rejected;
    return drop_some(reply.rejected, context);
  }
  if (is_loss(compose_->run, reply.timing, was_slower_) && !keeps_forward_) {
    const bool again = !std::exchange(was_slower_, true) && !is_late(context);
    return again ? time(context) : drop_all(context);
  }
  if (was_slower_) {
    report_.notes.push_back("Timed twice: the first time it was slower.");
  }
  report_.timing = reply.timing;
  if (!trials_.is_open()) return settle(context);
  trials_.finished(
      {trials_.cut(), chosen_, source_, report_.verdict, report_.timing});
  go_on(context);
}

void Composer::drop_all(Context& context) {
  if (stage_ == Stage::whole && go_on(context)) return;
  kernelbench_module_ = {};
  if (is_eager_contractions_) return kernelbench_settled(context);
  report_.notes.push_back(
      stage_ == Stage::whole
          ? "The composition with kernels was correct, but slower than eager: "
            "PyTorch's forward stays."
          : "The module within KernelBench's tolerance keeps PyTorch's "
            "forward: with kernels it was slower, or not correct.");
  chosen_.clear();
  keeps_forward_ = true;
  if (stage_ == Stage::seeking) stage_ = Stage::kernelbench;
  attempt(context);
}

void Composer::take_all() {
  for (const SubgraphDone* result : chosen_) {
    report_.used.insert(result->subgraph);
  }
  report_.stand_ins = keeps_forward_ ? 0 : plan_.fused_attention_calls.size();
}

void Composer::drop_some(const std::string& why, Context& context) {
  if (keeps_forward_) {
    report_.notes.push_back("Also without generated kernels: " + why);
    return probed(nullptr, context);
  }
  if (chosen_.empty()) {
    report_.notes.push_back("Partition \"" + plan_.label + "\": " + why);
    if (report_.rejected.empty()) report_.rejected = why;
    if (!go_on(context)) attempt(context);
    return;
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
  const std::size_t stored = is_late(context) ? 0 : chosen_.size() / 2;
  if (report_.rejected.empty()) report_.rejected = why;
  for (std::size_t i = stored; i < chosen_.size(); ++i) {
    report_.notes.push_back("Dropped " + chosen_[i]->subgraph +
                            " from the composition: " + why);
  }
  chosen_.resize(stored);
  if (chosen_.empty() && !has_stand_ins() && go_on(context)) return;
  attempt(context);
}

/// The run's time is over, and what is under way would take longer. The best
/// module that is verified as a whole is taken, if there is one.
void Composer::deliver_what_there_is(Context& context) {
  if (files_ > 0) return;
  effects_.cancel("the run's time is over", context);
  if (eager_contractions_ && !eager_contractions_results_.empty())
    leave_eager_contractions(false);
  if (stage_ != Stage::whole || is_settled_) return probed(nullptr, context);
  std::optional<CutTrial> best =
      trials_.is_open() ? trials_.choose() : std::nullopt;
  if (best) {
    report_.notes.push_back(trials_.summary());
    plan_ = trials_.plan();
    keeps_forward_ = false;
    chosen_ = std::move(best->chosen);
    source_ = std::move(best->source);
    report_.verdict = std::move(best->verdict);
    report_.timing = std::move(best->timing);
  } else if (is_checked_) {
    report_.notes.push_back(kOutOfTime);
  } else {
    report_.verdict = {};
    report_.verdict.reason =
        "the budget of " +
        seconds_text(compose_->run.options.budget_ms * 1'000) +
        " was over before a module was checked as a whole; give the run more "
        "with --budget-s";
    return probed(nullptr, context);
  }
  take_all();
  probed(nullptr, context);
}

void Composer::probed(const ProbeReply* reply, Context& context) {
  if (reply) report_.machine = *reply;
  if (compose_->run.options.accept == rule::kernelbench) take_kernelbench();
  if (compose_->searched_us > 0) {
    report_.notes.push_back(time_spent(*compose_, context.now_us()));
  }
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
  if (report_.kernelbench_module.composed) {
    files.files.push_back(
        {kKernelBenchModulePath, report_.kernelbench_module.source});
  }
  files_ = effects_.start(address::files, files, {"disk", 1, "", 60'000},
                          context, kTries);
}

void Composer::give_up(const Failure& failure, Context& context) {
  over_ = true;
  context.send(address::user,
               RunFinished{exit_code_of(failure), failure.message});
}

}  // namespace weft
