// The composer's second module: near to eager, where the whole is not; and that
// of the eager-contractions partition, which may become the whole.
#include <algorithm>
#include <utility>

#include "actors/best_known.hpp"
#include "actors/composer.hpp"
#include "actors/device.hpp"
#include "actors/outcome.hpp"
#include "actors/search_time.hpp"
#include "compiler/graph/operator_facts.hpp"

namespace weft {
namespace {

/// Calls of PyTorch's operators in a module that has those kernels alone.
std::map<std::string, int> externs_without(Plan plan,
                                           const std::set<std::string>& used) {
  std::erase_if(plan.placements, [&](const Placement& placement) {
    return !used.contains(placement.subgraph);
  });
  return extern_counts(plan);
}

bool has_product(const Plan& plan, const std::string& id) {
  const auto found = std::ranges::find(plan.subgraphs, id, &Subgraph::id);
  return found != plan.subgraphs.end() &&
         std::ranges::any_of(found->graph.nodes, [](const Node& node) {
           return node.kind == NodeKind::call && is_product(node.target);
         });
}

}  // namespace

/// Where torch.compile's module is not near either, none is asked for, unless
/// no other is wanted.
bool Composer::wants_kernelbench(const Verdict& verdict) const {
  const std::string& accept = compose_->run.options.accept;
  if (!verdict.correct ||
      verdict.kernelbench.outcome != kernelbench_outcome::outside) {
    return false;
  }
  const std::string& compiled = verdict.kernelbench.compiled;
  const bool others_are =
      compiled.empty() || compiled == kernelbench_outcome::within;
  return accept == rule::kernelbench || (accept == "both" && others_are);
}

/// Takes the fastest partition near to eager that was timed as a whole.
bool Composer::take_kernelbench_trial() {
  const CutTrial* trial =
      eager_contractions_ ? trials_.best_kernelbench() : nullptr;
  if (!trial) return false;
  kernelbench_module_ = {};
  kernelbench_module_.composed = true;
  kernelbench_module_.verdict = trial->verdict;
  kernelbench_module_.timing = trial->timing;
  report_kernelbench_module(trial->source);
  report_kernels(trials_.plan_of(trial->cut), trial->chosen);
  report_.kernelbench_module = std::exchange(kernelbench_module_, {});
  return true;
}

void Composer::report_kernelbench_module(const std::string& source) {
  kernelbench_module_.source = source;
  KernelBenchVerdict& found = kernelbench_module_.verdict.kernelbench;
  found.compiled = report_.verdict.kernelbench.compiled;
  found.compiled_reason = report_.verdict.kernelbench.compiled_reason;
}

void Composer::report_kernels(const Plan& cut,
                              const std::vector<const SubgraphDone*>& chosen) {
  for (const SubgraphDone* done : chosen) {
    kernelbench_module_.used.insert(done->subgraph);
  }
  kernelbench_module_.stand_ins = cut.fused_attention_calls.size();
  kernelbench_module_.externs = externs_without(cut, kernelbench_module_.used);
}

/// Nearest to eager first.
void Composer::rank() {
  ranked_ = chosen_;
  std::ranges::stable_sort(ranked_, {}, [](const SubgraphDone* done) {
    const Verdict& verdict = done->best.verdict;
    return verdict.max_error + verdict.framework_error;
  });
  within_ = 0;
  outside_ = ranked_.size() + (plan_.fused_attention_calls.empty() ? 0 : 1);
}

/// The framework's own forward() is near; with all kernels it is not.
void Composer::seek(Context& context) {
  if (stage_ == Stage::whole) rank();
  const bool is_found = outside_ - within_ <= 1 || is_late(context);
  stage_ = is_found ? Stage::kernelbench : Stage::seeking;
  changes_ = is_found ? within_ : (within_ + outside_) / 2;
  if (is_eager_contractions_ && changes_ == 0)
    return kernelbench_settled(context);
  keeps_forward_ = changes_ == 0;
  chosen_ = ranked_;
  chosen_.resize(plan_.fused_attention_calls.empty() || keeps_forward_
                     ? changes_
                     : changes_ - 1);
  attempt(context);
}

/// By weft's rule alone, what is right; else what is near, too.
bool Composer::suits(const Verdict& verdict) const {
  return compose_->run.options.accept == rule::weft ||
         verdict.kernelbench.outcome == kernelbench_outcome::within;
}

void Composer::checked_kernelbench(const Verdict& verdict, Context& context) {
  const bool passes_kernelbench = suits(verdict);
  if (stage_ == Stage::seeking) {
    (passes_kernelbench ? within_ : outside_) = changes_;
    return seek(context);
  }
  const bool is_first_of_eager_contractions =
      outside_ > ranked_.size() && is_eager_contractions_;
  if (verdict.correct && !passes_kernelbench &&
      is_first_of_eager_contractions) {
    outside_ = changes_;
    return seek(context);
  }
  if (!verdict.correct || !passes_kernelbench) {
    const std::string& why =
        verdict.correct ? verdict.kernelbench.reason : verdict.reason;
    if (!keeps_forward_) return drop_all(context);
    report_.notes.push_back(
        "Not even Model's own forward is within KernelBench's tolerance: " +
        why);
    return kernelbench_settled(context);
  }
  kernelbench_module_.composed = true;
  kernelbench_module_.verdict = verdict;
  if (!times_module(compose_->run.options, compose_->run.machine)) {
    return kernelbench_settled(context);
  }
  if (!is_late(context)) return time(context);
  report_.notes.push_back(kOutOfTime);
  kernelbench_settled(context);
}

void Composer::timed_kernelbench(const TimeReply& reply, Context& context) {
  const bool is_slower = is_loss(compose_->run, reply.timing, was_slower_);
  if (!keeps_forward_ && is_slower && !was_slower_ && !is_late(context)) {
    was_slower_ = true;
    return time(context);
  }
  if (!keeps_forward_ && (is_slower || !reply.rejected.empty())) {
    return drop_all(context);
  }
  kernelbench_module_.timing = reply.timing;
  kernelbench_settled(context);
}

/// The near module of the cut at hand is made, or there is none.
void Composer::kernelbench_settled(Context& context) {
  if (kernelbench_module_.composed) {
    report_kernelbench_module(kernelbench_source_);
    if (!keeps_forward_) report_kernels(plan_, chosen_);
  }
  const bool is_whole = is_better_whole();
  const bool is_taken = !is_whole && wants_kernelbench(report_.verdict) &&
                        is_better_kernelbench();
  if (is_whole) {
    report_.notes.push_back(
        "PyTorch computes the products: kernels around them make a "
        "faster module than those with them.");
    replace_whole(std::exchange(kernelbench_module_, {}));
  }
  if (is_taken) report_.kernelbench_module = kernelbench_module_;
  kernelbench_module_ = {};
  if (wants_eager_contractions(context))
    return ask_for_eager_contractions(context);
  if (is_eager_contractions_) {
    const bool is_only = compose_->run.options.accept == rule::kernelbench;
    leave_eager_contractions(is_whole || (is_taken && is_only));
  }
  probe_at_last(context);
}

/// Whether the eager-contractions partition's module is to be the whole: it is
/// faster, or, where nothing is timed, has more kernels where the whole lacks
/// one with a product.
bool Composer::is_better_whole() const {
  if (!is_eager_contractions_ || !kernelbench_module_.composed ||
      keeps_forward_)
    return false;
  const bool gives_way = compose_->run.options.accept == rule::kernelbench &&
                         wants_kernelbench(report_.verdict);
  if (!compose_->run.seeks_products || gives_way) return false;
  const bool is_timed =
      times_module(compose_->run.options, compose_->run.machine);
  return (is_timed || lacks_product()) &&
         is_kernelbench_better_than(report_.timing, report_.used.size());
}

/// Than the one that there is.
bool Composer::is_better_kernelbench() const {
  if (!kernelbench_module_.composed || !report_.kernelbench_module.composed)
    return kernelbench_module_.composed;
  return is_kernelbench_better_than(report_.kernelbench_module.timing,
                                    report_.kernelbench_module.used.size());
}

/// Than a module of that timing; of what is not timed, the one with more
/// kernels.
bool Composer::is_kernelbench_better_than(const Timing& other,
                                          std::size_t kernels) const {
  if (!times_module(compose_->run.options, compose_->run.machine)) {
    return kernelbench_module_.used.size() > kernels;
  }
  const Timing& own = kernelbench_module_.timing;
  return own.over_eager.ratio > 0 &&
         (other.over_eager.ratio <= 0 || is_faster(own, other));
}

/// Whether a product is in no module's kernel: none was right, or it lost.
bool Composer::lacks_product() const {
  const Plan& whole = is_eager_contractions_ ? *eager_contractions_ : plan_;
  return std::ranges::any_of(whole.placements, [&](const Placement& placement) {
    return !report_.used.contains(placement.subgraph) &&
           !report_.kernelbench_module.used.contains(placement.subgraph) &&
           has_product(whole, placement.subgraph);
  });
}

/// For the sake of the whole, which lacks a product. A language model is not
/// paid for that.
bool Composer::may_search_eager_contractions(const Context& context) const {
  return compose_->run.seeks_products &&
         compose_->run.options.llm.name.empty() && eager_contractions_ &&
         !is_eager_contractions_ && report_.verdict.correct &&
         left_ms(context) >= 2 * kLeastShareMs && lacks_product();
}

/// Whether to search the partition with PyTorch's own products: if kernels were
/// removed for a product, or if all kernels were removed. In the latter case
/// the vendor's library may have been called in another way than the model
/// does.
bool Composer::wants_eager_contractions(const Context& context) const {
  if (!eager_contractions_ || is_eager_contractions_ || is_late(context))
    return false;
  if (may_search_eager_contractions(context)) return true;
  const KernelBenchModule& kernelbench_module = report_.kernelbench_module;
  if (!kernelbench_module.composed) return false;
  if (kernelbench_module.used.empty() && kernelbench_module.stand_ins == 0)
    return true;
  return std::ranges::any_of(ranked_, [&](const SubgraphDone* done) {
    return !kernelbench_module.used.contains(done->subgraph) &&
           has_product(plan_, done->subgraph);
  });
}

/// Half of what is left of the run's time is for the search.
void Composer::ask_for_eager_contractions(Context& context) {
  SearchEagerContractions ask;
  if (compose_->ends_us != 0) {
    ask.until_us = context.now_us() + left_ms(context) / 2 * 1'000;
  }
  context.send(
      address::user,
      Progress{"", "compose",
               lacks_product()
                   ? "kernels around PyTorch's products: "
                     "no module with generated products is correct and faster"
                   : "kernels around PyTorch's products: "
                     "generated products are outside KernelBench's tolerance"});
  is_eager_contractions_ = true;
  context.send(address::dispatcher, ask);
}

void Composer::eager_contractions_searched(
    const EagerContractionsSearched& searched, Context& context) {
  if (!is_eager_contractions_ || !eager_contractions_results_.empty() ||
      files_ > 0)
    return;
  eager_contractions_results_ = searched.results;
  report_.subgraphs.insert(report_.subgraphs.end(),
                           eager_contractions_results_.begin(),
                           eager_contractions_results_.end());
  std::swap(plan_, *eager_contractions_);
  choose_placed();
  const bool has_more = std::ranges::any_of(chosen_, [&](const auto* done) {
    return !report_.used.contains(done->subgraph);
  });
  const bool is_new = has_more || wants_kernelbench(report_.verdict);
  if (chosen_.empty() || !is_new || is_late(context)) {
    return kernelbench_settled(context);
  }
  rank();
  outside_ = ranked_.size() + 1;  // All of them may be near to eager.
  changes_ = ranked_.size();
  stage_ = Stage::kernelbench;
  keeps_forward_ = false;
  attempt(context);
}

/// The report lists all partitions, the module's own first.
void Composer::leave_eager_contractions(bool is_whole) {
  if (!is_whole) std::swap(plan_, *eager_contractions_);
  Plan other = std::move(*eager_contractions_);
  eager_contractions_.reset();
  std::vector<Plan> others = std::exchange(other.others, {});
  plan_.others.push_back(std::move(other));
  for (Plan& plan : others) plan_.others.push_back(std::move(plan));
}

void Composer::replace_whole(KernelBenchModule with) {
  report_.verdict = std::move(with.verdict);
  report_.timing = std::move(with.timing);
  report_.used = std::move(with.used);
  report_.stand_ins = with.stand_ins;
  source_ = std::move(with.source);
  report_.kernelbench_module = {};
}

/// By this rule alone: the other module does not count.
void Composer::take_kernelbench() {
  if (report_.kernelbench_module.composed) {
    replace_whole(std::exchange(report_.kernelbench_module, {}));
  } else if (report_.verdict.correct && report_.verdict.kernelbench.outcome !=
                                            kernelbench_outcome::within) {
    report_.verdict.correct = false;
    report_.verdict.kind = "far_from_eager";
    report_.verdict.reason = report_.verdict.kernelbench.reason;
  }
}

}  // namespace weft
