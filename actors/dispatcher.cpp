#include "actors/dispatcher.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "actors/llm/seeds.hpp"
#include "actors/outcome.hpp"
#include "actors/session_files.hpp"
#include "compiler/compose/compose.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

bool asks_model(const RunOptions& options) {
  return std::ranges::find(options.seeds, kLlmSource) != options.seeds.end();
}

}  // namespace

void Dispatcher::receive(const Address&, const Message& message,
                         Context& context) {
  if (over_) return;
  if (const auto* dispatch = std::get_if<Dispatch>(&message)) {
    if (!dispatch_) begin(*dispatch, context);
  } else if (const auto* offer = std::get_if<Capacities>(&message)) {
    take_offer(*offer, context);
  } else if (const auto* loss = std::get_if<NodeLost>(&message)) {
    lose_node(*loss, context);
  } else if (const auto* done = std::get_if<SubgraphDone>(&message)) {
    finished(*done, context);
  } else if (const auto* ask = std::get_if<SearchEagerContractions>(&message)) {
    search_eager_contractions(*ask, context);
  } else if (const auto* fired = std::get_if<TimerFired>(&message);
             fired && alarms_.contains(fired->effect)) {
    const std::string subgraph = alarms_.extract(fired->effect).mapped();
    if (done_.contains(subgraph)) return;
    context.send(address::agent(subgraph), StopSearch{budget_words()});
  } else if (fired && node_alarm_ != 0 && fired->effect == node_alarm_) {
    end_without_node(context);
  } else if (const auto stranded =
                 fired ? agents_.take_stranded(fired->effect) : std::nullopt) {
    end_stranded(*stranded, context);
  } else if (const auto end = effects_.receive(message, context)) {
    if (end->failure) return give_up(end->failure, context);
    hand_over(context);
  }
}

void Dispatcher::take_offer(const Capacities& offer, Context& context) {
  if (offer.location.empty()) {
    spares_head_ = offer.units.empty();
  } else if (offer.units.empty()) {
    mark_gone(offer.location);
  } else {
    offers_[offer.location] = offer;
  }
  offers_changed(context);
}

void Dispatcher::lose_node(const NodeLost& loss, Context& context) {
  for (const Location& location : loss.locations) mark_gone(location);
  offers_changed(context);
}

void Dispatcher::offers_changed(Context& context) {
  if (!dispatch_) return;
  if (may_gain_locations(dispatch_->run)) {
    agents_.extend(locations(), dispatch_->run.node_wait_ms, effects_, context);
  }
  start_agents(context);
  // With the time over, what waited for a location is not begun.
  if (search_until_us_ > 0) hand_over(context);
}

void Dispatcher::begin(const Dispatch& dispatch, Context& context) {
  dispatch_ = dispatch;
  const auto text = context.blobs().get(dispatch.plan);
  if (!text) return give_up({"failed", text.error().message}, context);
  auto plan = parse_plan(*text);
  if (!plan) return give_up({"failed", plan.error().message}, context);
  plan_ = std::move(*plan);
  plan_.subgraphs = all_subgraphs(plan_);  // those of its other cuts, too
  order_.resize(plan_.subgraphs.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (dispatch_->run.options.budget_ms > 0) limit_time(context);
  start_agents(context);
  hand_over(context);  // at once when there is nothing to do
}

void Dispatcher::start_agents(Context& context) {
  const bool head_judges = head_can(dispatch_->run, capability::judge);
  if ((spares_head_ || !head_judges) && locations().empty()) {
    if (next_ < plan_.subgraphs.size() && agents_.empty() && node_alarm_ == 0) {
      const bool is_earlier =
          dispatch_->run.vocabulary < kLaterLocationsVocabulary;
      const std::string why =
          !head_judges ? class_name(dispatch_->run.device_class)
          : is_earlier ? "the head is spared"
                       : "--no-local leaves all work to nodes; start one with "
                         "'weft node --join ADDRESS'";
      context.send(address::user, Progress{"", "waits", "for a node: " + why});
      // The first node may take its time, if the run may.
      if (!head_judges || (!is_earlier && !done_.empty())) {
        node_alarm_ = effects_.timer(dispatch_->run.node_wait_ms, context);
      } else if (!is_earlier && search_until_us_ > 0) {
        node_alarm_ = effects_.timer(
            std::max<std::int64_t>(1, left_ms(context)), context);
      }
    }
    return;
  }
  node_alarm_ = 0;
  const std::size_t agents = agents_max();
  while (next_ < order_.size() && working_ < agents) {
    const Subgraph& subgraph = plan_.subgraphs[order_[next_++]];
    if (search_until_us_ > 0 && context.now_us() >= search_until_us_) {
      skip(subgraph, budget_words(), context);
    } else {
      start_agent(subgraph, context);
    }
  }
}

void Dispatcher::limit_time(Context& context) {
  captured_us_ = context.now_us();
  const std::int64_t gone_ms = (captured_us_ - dispatch_->begun_us) / 1'000;
  search_until_us_ =
      captured_us_ + search_ms(dispatch_->run.options, gone_ms,
                               !spends_small_budgets(dispatch_->run)) *
                         1'000;
  shares_ = SearchShares(plan_);
  order_ = shares_.order();
  limit_kernels(order_.size(), context);
  agents_limit_ = subgraphs_at_once(left_ms(context), agents_max());
}

/// Those of each of so many subgraphs, which are all that are to be searched
/// for.
void Dispatcher::limit_kernels(std::size_t subgraphs, const Context& context) {
  const RunOptions& options = dispatch_->run.options;
  const bool is_limited =
      search_until_us_ > 0 && !is_ample(left_ms(context), subgraphs, options);
  kernels_each_ =
      is_limited ? kernels_each(left_ms(context), subgraphs, options) : 0;
}

/// Those of one subgraph, where the time is limited.
int Dispatcher::kernels_for(const Subgraph& subgraph,
                            const Context& context) const {
  const RunOptions& options = dispatch_->run.options;
  if (options.final_timing_ms > 0 || !spends_small_budgets(dispatch_->run)) {
    return kernels_each_;
  }
  return kernels_by_share(left_ms(context), shares_.share(subgraph.id),
                          order_.size() - next_ + working_, kernels_each_,
                          options);
}

/// Of the search, where that is limited.
std::int64_t Dispatcher::left_ms(const Context& context) const {
  return (search_until_us_ - context.now_us() + 999) / 1'000;
}

/// No node of the class is left, and none came.
void Dispatcher::end_without_node(Context& context) {
  node_alarm_ = 0;
  skip_rest(context);
  hand_over(context);
}

void Dispatcher::skip_rest(Context& context) {
  while (next_ < order_.size()) {
    skip(plan_.subgraphs[order_[next_++]], no_node_words(), context);
  }
}

std::string Dispatcher::no_node_words() const {
  return "there is no node of the class " +
         class_name(dispatch_->run.device_class);
}

void Dispatcher::mark_gone(const Location& location) {
  offers_.erase(location);
  if (dispatch_ && may_gain_locations(dispatch_->run)) {
    agents_.mark_gone(location);
  }
}

/// No location came for that one in time.
void Dispatcher::end_stranded(const std::string& subgraph, Context& context) {
  if (locations().empty()) skip_rest(context);
  context.send(address::agent(subgraph), StopSearch{no_node_words()});
}

void Dispatcher::skip(const Subgraph& subgraph, const std::string& why,
                      Context& context) {
  SubgraphDone& done = done_[subgraph.id];
  done.subgraph = subgraph.id;
  done.outcome = "failed";
  done.reason = "not begun: " + why;
  context.send(address::user, Progress{subgraph.id, "failed", done.reason});
}

std::string Dispatcher::budget_words() const {
  return std::string(kSearchTimeOver) + " of " +
         std::to_string(dispatch_->run.options.budget_ms / 1'000) +
         " s is over";
}

/// While one builds, another has the device: so many for each device.
std::size_t Dispatcher::agents_max() const {
  const auto jobs =
      static_cast<std::size_t>(std::max(1, dispatch_->run.options.jobs));
  const auto devices =
      std::ranges::count_if(offers_, [this](const auto& offer) {
        return !device_of(offer.first).empty() && judges(offer.second);
      });
  const auto agents =
      jobs * static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, devices));
  return agents_limit_ > 0 ? std::min(agents, agents_limit_) : agents;
}

/// In an older weft's run all nodes are like the head.
bool Dispatcher::judges(const Capacities& offer) const {
  return !has_class(dispatch_->run) ||
         has_capability(offer.capabilities, capability::judge);
}

DeviceLocations Dispatcher::locations() const {
  DeviceLocations locations;
  const bool head_judges = head_can(dispatch_->run, capability::judge);
  const auto of_head =
      head_judges ? head_locations(dispatch_->run) : std::vector<Location>();
  for (const Location& location : of_head) locations[location] = {};
  const std::string resource = device_resource(dispatch_->run.machine);
  for (const auto& [location, offer] : offers_) {
    if (!offer.units.contains(resource) || !judges(offer)) continue;
    if (device_of(location).empty()) {
      locations[location] = {};
    } else {
      locations[location] = offer.gpu;
    }
  }
  // The head's own devices that are gone meanwhile.
  std::erase_if(locations, [&](const auto& item) {
    return !device_of(item.first).empty() && !offers_.contains(item.first);
  });
  if (spares_head_) {
    std::erase_if(locations,
                  [](const auto& item) { return node_of(item.first).empty(); });
  } else if (locations.empty() && head_judges) {
    locations[of_head.front()] = {};
  }
  return locations;
}

/// Says where, and what the location has: kernels are made for its device.
std::optional<Gpu> Dispatcher::assign_location(OptimizeSubgraph& work) const {
  const auto gpu = agents_.assign(work, locations());
  if (work.machine.gpus.empty() || !gpu) return gpu;
  work.machine.gpus = {*gpu};
  // A device that was not probed is of the run's kind all the same.
  const auto& probed = offers_.at(work.locations.front()).gpu_numbers;
  if (!probed.empty()) work.machine.gpu_numbers = probed;
  return gpu;
}

void Dispatcher::start_agent(const Subgraph& subgraph, Context& context) {
  Blobs& blobs = context.blobs();
  const std::string graph = blobs.put(graph_to_json(subgraph.graph));
  write(subgraph,
        {{"problem.txt", blobs.put(problem_text(subgraph))},
         {"reference.py", blobs.put(reference_source(subgraph))},
         {"test_kernel.py", blobs.put(test_source(subgraph))},
         {"graph.json", graph}},
        context);
  RunOptions options = dispatch_->run.options;
  // A piece that is the whole model is timed beside it as such.
  const bool is_whole = plan_.placements.size() == 1 &&
                        plan_.placements.front().subgraph == subgraph.id &&
                        extern_counts(plan_).empty();
  // With little time, so is the module alone: beside a piece, torch.compile
  // takes as long as judging three kernels.
  const bool is_hurried = kernels_each_ > 0;
  if (is_whole || is_hurried) {
    // But a language model is told what torch.compile takes, before that.
    options.compile_baseline = options.compile_baseline && asks_model(options);
  }
  if (is_hurried) options.variants_max = kernels_for(subgraph, context);
  // A device's events need no longer look: the module has it.
  if (is_whole && !dispatch_->run.machine.gpus.empty() &&
      options.final_timing_ms > 0) {
    options.final_timing_ms = options.timing_ms;
  }
  OptimizeSubgraph work{subgraph.id, subgraph.type, subgraph.signature,
                        graph,       options,       dispatch_->run.machine};
  std::optional<Gpu> gpu;
  if (knows_locations(dispatch_->run)) {
    gpu = assign_location(work);
    work.device_class = class_name(dispatch_->run.device_class);
    work.may_gain_locations = may_gain_locations(dispatch_->run);
    if (!work.machine.gpus.empty()) {
      work.device_bytes = device_bytes(subgraph.graph);
    }
  }
  ask_to_fuse(work);
  if (asks_model(work.options)) work.share = work_share(plan_, subgraph);
  // What costs the most is judged first, where there may be no time for all.
  if (search_until_us_ > 0) work.expected_gain = shares_.cost(subgraph.id);
  if (knows_locations(dispatch_->run)) agents_.add(work, gpu);
  ++working_;
  context.send(address::agent(subgraph.id), std::move(work));
  if (search_until_us_ == 0) return;
  const std::int64_t share_ms =
      shares_.take(subgraph.id, left_ms(context), agents_max());
  alarms_[effects_.timer(is_hurried ? share_ms : left_ms(context), context)] =
      subgraph.id;
}

/// A fused piece is the language model's alone: the compiler has its own rules.
void Dispatcher::ask_to_fuse(OptimizeSubgraph& work) const {
  const auto fused = fusing_.parts.find(work.subgraph);
  if (fused == fusing_.parts.end()) return;
  work.options.seeds = {kLlmSource};
  for (const std::string& part : fused->second) {
    work.parts.push_back(done_.at(part).best.seed);
  }
}

void Dispatcher::finished(const SubgraphDone& done, Context& context) {
  const auto piece = std::find_if(
      plan_.subgraphs.begin(), plan_.subgraphs.end(),
      [&](const Subgraph& subgraph) { return subgraph.id == done.subgraph; });
  if (piece == plan_.subgraphs.end()) return;
  if (!done_.emplace(done.subgraph, done).second) return;
  --working_;
  agents_.remove(done.subgraph);
  if (done.best.verdict.correct) {
    const auto source = context.blobs().get(done.best.seed.source);
    if (!source) return give_up({"failed", source.error().message}, context);
    const Target* target = find_target(done.best.seed.target);
    if (!target) return give_up({"failed", "a kernel of no target"}, context);
    const std::string module =
        kernel_module_source(*piece, {*source, done.best.seed.variant, target});
    write(*piece,
          {{std::string(target->source_file), done.best.seed.source},
           {"kernel.py", context.blobs().put(module)}},
          context);
  }
  start_agents(context);
  hand_over(context);
}

void Dispatcher::write(const Subgraph& subgraph, std::vector<FileToWrite> files,
                       Context& context) {
  for (FileToWrite& file : files) {
    file.path = "kernels/" + subgraph.id + "/" + file.path;
  }
  WriteFilesRequest request;
  request.files = std::move(files);
  effects_.start(address::files, request, {"disk", 1, subgraph.id, 60'000},
                 context);
}

bool Dispatcher::is_at_work() const {
  return next_ < order_.size() || working_ > 0 || !effects_.idle();
}

void Dispatcher::hand_over(Context& context) {
  if (is_composed_ || is_at_work()) return;
  settle_fusing(context);
  while (begin_fusing(context)) {
    if (is_at_work()) return;
    settle_fusing(context);
  }
  if (write_summary(context)) return;
  if (eager_contractions_) {
    over_ = true;
    EagerContractionsSearched searched;
    for (const std::string& id : *eager_contractions_) {
      searched.results.push_back(done_.at(id));
    }
    context.send(address::composer, std::move(searched));
    return;
  }
  is_composed_ = true;
  over_ = plan_.eager_contractions_partition.empty();
  Compose compose{dispatch_->plan, dispatch_->run, {}};
  if (search_until_us_ > 0) {
    compose.ends_us =
        dispatch_->begun_us + dispatch_->run.options.budget_ms * 1'000;
    compose.begun_us = dispatch_->begun_us;
    compose.captured_us = captured_us_;
    compose.searched_us = context.now_us();
  }
  // Those of the other cuts, too.
  for (const Subgraph& subgraph : all_subgraphs(plan_)) {
    compose.results.push_back(done_.at(subgraph.id));
  }
  context.send(address::composer, compose);
}

void Dispatcher::search_eager_contractions(const SearchEagerContractions& ask,
                                           Context& context) {
  if (!is_composed_) return;
  is_composed_ = false;
  summary_written_ = false;
  eager_contractions_.emplace();
  Plan added = plan_.eager_contractions_partition.front();
  std::erase_if(added.subgraphs, [&](const Subgraph& subgraph) {
    return done_.contains(subgraph.id);
  });
  search_until_us_ = ask.until_us;
  shares_ = SearchShares(added);
  for (Subgraph& subgraph : added.subgraphs) {
    eager_contractions_->insert(subgraph.id);
    order_.push_back(plan_.subgraphs.size());
    plan_.subgraphs.push_back(std::move(subgraph));
  }
  limit_kernels(eager_contractions_->size(), context);
  start_agents(context);
  hand_over(context);
}

/// False: nothing is to be fused, or all has been that pays.
bool Dispatcher::begin_fusing(Context& context) {
  const LlmOptions& options = dispatch_->run.options.llm;
  if (!options.fuse || options.name.empty()) return false;
  if (tried_to_fuse_.size() >= kFusedPairsMax) return false;
  fusing_ = fuse_neighbours(plan_, done_, fused_, options.edition,
                            [&](const std::string& piece) {
                              return !tried_to_fuse_.contains(piece);
                            });
  if (fusing_.parts.empty()) return false;
  apart_ = plan_;
  std::size_t count = 0;
  for (const Subgraph& piece : fusing_.plan.subgraphs) {
    if (!fusing_.parts.contains(piece.id)) continue;
    tried_to_fuse_.insert(piece.id);
    if (done_.contains(piece.id)) continue;  // the model has it elsewhere, too
    ++count;
    order_.push_back(plan_.subgraphs.size());
    plan_.subgraphs.push_back(piece);
  }
  if (count > 0) {
    context.send(address::user,
                 Progress{"", "extract",
                          std::to_string(count) +
                              " pairs of neighbouring winners are asked for "
                              "as one kernel"});
  }
  start_agents(context);
  return true;
}

/// The cut in which those pairs are one that are faster so.
void Dispatcher::settle_fusing(Context& context) {
  if (fusing_.parts.empty()) return;
  std::set<std::string> stored;
  for (const auto& [id, parts] : fusing_.parts) {
    const SubgraphDone& fused = done_.at(id);
    const bool is_kept = is_worth_fusing(fused, parts, done_,
                                         dispatch_->run.options.llm.edition);
    if (is_kept) stored.insert(id);
    // What was spent stays told, whichever pieces the report has.
    if (!is_kept) add_spent(done_.at(parts.front()).llm.spent, fused.llm.spent);
    context.send(address::user,
                 Progress{id, "fuse",
                          std::string(is_kept ? "kept" : "not kept") +
                              ": one kernel for " + parts.front() + " and " +
                              parts.back()});
  }
  Fusing final = fuse_neighbours(
      apart_, done_, fused_, dispatch_->run.options.llm.edition,
      [&](const std::string& piece) { return stored.contains(piece); });
  plan_ = std::move(final.plan);
  if (!final.parts.empty()) keep_apart();
  for (const auto& [id, parts] : final.parts) {
    fused_[id] = parts;
    for (const std::string& part : parts) {
      const bool is_there = std::ranges::any_of(
          plan_.subgraphs,
          [&](const Subgraph& piece) { return piece.id == part; });
      // A part that is nowhere else takes its spending along.
      if (!is_there) {
        add_spent(done_.at(id).llm.spent,
                  std::exchange(done_.at(part).llm.spent, {}));
      }
    }
  }
  fusing_ = {};
  dispatch_->plan = context.blobs().put(plan_to_json(plan_));
}

/// The module with the neighbours apart is timed, too: a fused kernel that wins
/// alone may lose there.
void Dispatcher::keep_apart() {
  const RunStart& run = dispatch_->run;
  if (run.options.llm.edition < 2 || !times_module(run.options, run.machine))
    return;
  plan_.label = kFusedByModel;
  plan_.others = std::exchange(apart_.others, {});
  // If a chain grew, the first and the last cut are kept.
  if (apart_.label == kFusedByModel) return;
  if (apart_.label.empty()) apart_.label = "neighbours apart";
  std::erase_if(apart_.subgraphs, [&](const Subgraph& subgraph) {
    return std::ranges::find(apart_.placements, subgraph.id,
                             &Placement::subgraph) == apart_.placements.end();
  });
  plan_.others.push_back(std::move(apart_));
}

/// KernelAgent's summary of all subgraphs; false: there is none to write.
bool Dispatcher::write_summary(Context& context) {
  if (summary_written_ || dispatch_->run.options.llm.name.empty()) return false;
  summary_written_ = true;
  std::vector<SubgraphDone> all;
  for (const Subgraph& subgraph : plan_.subgraphs) {
    all.push_back(done_.at(subgraph.id));
  }
  WriteFilesRequest request;
  request.files = {
      {"kernels/summary.json", context.blobs().put(sessions_summary(all))}};
  effects_.start(address::files, request, {"disk", 1, "", 60'000}, context);
  return true;
}

void Dispatcher::give_up(const Failure& failure, Context& context) {
  over_ = true;
  context.send(address::user,
               RunFinished{exit_code_of(failure), failure.message});
}

}  // namespace weft
