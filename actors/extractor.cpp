#include "actors/extractor.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "actors/best_known.hpp"
#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "actors/kernel_key.hpp"
#include "actors/llm/grouping.hpp"
#include "actors/number_text.hpp"
#include "actors/outcome.hpp"
#include "actors/search_time.hpp"
#include "compiler/compose/problem_at.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/graph/subgraph.hpp"
#include "compiler/inductor_cut.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

/// A model that proposes what cannot be so often is not asked again.
constexpr int kProposalsMax = 3;
/// A port kills what it runs within a second or two; a lost node says nothing.
constexpr std::int64_t kGraceMs = 30'000;

std::string cut_summary(const Plan& plan) {
  int externs = 0;
  for (const auto& [name, count] : extern_counts(plan)) externs += count;
  std::string text = counted(plan.placements.size(), "subgraph") + " (" +
                     std::to_string(plan.subgraphs.size()) + " distinct), " +
                     counted(externs, "call") + " left to PyTorch";
  if (!plan.others.empty()) {
    text += "; partitioned in " + std::to_string(plan.others.size() + 1) +
            " ways, with " + std::to_string(all_subgraphs(plan).size()) +
            " distinct subgraphs in all";
  }
  return text;
}

/// A language model may write what the compiler has no code for. Who works
/// alone gets as much in one piece as can be.
CutOptions::Others others_of(const std::vector<std::string>& seeds) {
  const auto has = [&](const std::string& source) {
    return std::ranges::find(seeds, source) != seeds.end();
  };
  if (has("compiler")) {
    return has("llm") ? CutOptions::Others::separate : CutOptions::Others::none;
  }
  return has("llm") || has("inductor") ? CutOptions::Others::fused
                                       : CutOptions::Others::none;
}

/// Whether Inductor's fusion of the whole graph is a candidate beside the cuts
/// along weft's kernels. A language model is not paid for it.
bool wants_inductor_cut(const RunStart& run) {
  const std::vector<std::string>& seeds = run.options.seeds;
  const auto has = [&](const std::string& source) {
    return std::ranges::find(seeds, source) != seeds.end();
  };
  return delivers_best(run) && run.options.llm.name.empty() &&
         has("compiler") && has("inductor");
}

/// The place of that symbol: (position of its input, size). A size of 0: there
/// is none.
std::pair<int, std::int64_t> size_in(const Graph& graph,
                                     const SymbolicDim& symbol) {
  int position = 0;
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::input) continue;
    const int at = position++;
    const bool is_tensor = !node.values.empty() && node.values[0] &&
                           !node.values[0]->shape.empty();
    const bool is_named = symbol.input == at || (symbol.input < 0 && is_tensor);
    if (!is_named) continue;
    const auto dim = static_cast<std::size_t>(symbol.dim);
    const bool has_it = is_tensor && dim < node.values[0]->shape.size();
    return {at, has_it ? node.values[0]->shape[dim] : 0};
  }
  return {-1, 0};
}

Result<Plan> plan_for_sizes(const std::map<Sizes, std::string>& blobs,
                            const Sizes& sizes, const Target& target,
                            const CutOptions& options, bool in_ways,
                            const std::string& flag, Context& context) {
  std::map<Sizes, Graph> graphs;
  for (const auto& [at, blob] : blobs) {
    const auto text = context.blobs().get(blob);
    if (!text) return std::unexpected(text.error());
    auto graph = parse_graph(*text);
    if (!graph) return std::unexpected(graph.error());
    graphs.emplace(at, std::move(*graph));
  }
  auto plan =
      in_ways ? partition_candidates_for_sizes(graphs, sizes, target, options)
              : partition_for_sizes(graphs, sizes, target, options);
  if (plan) return plan;
  return fail(plan.error().code,
              flag + ": " + plan.error().message +
                  "; leave the flag out for kernels of one size");
}

}  // namespace

void Extractor::receive(const Address&, const Message& message,
                        Context& context) {
  if (const auto* start = std::get_if<RunStart>(&message)) {
    if (!run_) begin(*start, context);
    return;
  }
  const auto* fired = std::get_if<TimerFired>(&message);
  if (fired && deadline_ > 0 && fired->effect == deadline_) {
    return out_of_time(context);
  }
  if (const auto call = calls_.receive(message, context)) {
    return grouped(*call, context);
  }
  const auto end = effects_.receive(message, context);
  if (!end || is_over_) return;
  if (end->id == capture_) {
    captured(*end, context);
  } else if (end->id == capture_of_samples_) {
    captured_sizes(*end, context);
  } else {
    written(*end, context);
  }
}

void Extractor::begin(const RunStart& start, Context& context) {
  run_ = start;
  if (start.options.budget_ms > 0) {
    begun_us_ = context.now_us();
    deadline_ = effects_.timer(start.options.budget_ms, context);
  }
  report_capacities(context);
  if (!start.options.llm.name.empty()) {
    context.send(address::broker, LlmAllowance{start.options.llm});
  }
  if (const Failure failure = without_sizes()) return finish(failure, context);
  if (start.graph.empty()) return capture(context);
  cut(start.graph, ", captured before the run", context);
}

void Extractor::report_capacities(Context& context) {
  const Machine& machine = run_->machine;
  Capacities head{{{"cpu", machine.cores}, {"disk", 1}}};
  if (knows_locations(*run_)) head.grace_ms = kGraceMs;
  if (has_class(*run_)) {
    head.units["cpu"] = run_->head_cores;
    head.capabilities = run_->head_can;
  }
  const bool judges = head_can(*run_, capability::judge);
  const std::string own_class = judges ? class_name(run_->device_class) : "";
  if (machine.gpus.empty()) head.device_class = own_class;
  std::vector<Capacities> devices;
  for (const Gpu& gpu : judges ? machine.gpus : std::vector<Gpu>()) {
    if (!knows_locations(*run_) || gpu.uuid.empty()) {
      head.units["gpu"] = kGpuUnits;
      continue;
    }
    Capacities& device = devices.emplace_back();
    device.location = location_of_gpu(gpu);
    device.units = {{"gpu", kGpuUnits}, {gpu_memory, gpu.memory_bytes}};
    device.gpu = gpu;
    device.device_class = own_class;
    if (has_class(*run_)) {
      device.capabilities = {capability::capture, capability::judge};
    }
  }
  context.send(address::broker, std::move(head));
  for (Capacities& device : devices) {
    context.send(address::broker, std::move(device));
  }
}

void Extractor::capture(Context& context) {
  context.send(address::user,
               Progress{"", "capture", "capturing " + run_->problem_name});
  capture_ = start_capture({run_->problem}, context);
}

std::uint64_t Extractor::start_capture(const std::vector<std::string>& problems,
                                       Context& context) {
  const auto count = static_cast<std::int64_t>(problems.size());
  CaptureRequest request;
  request.problem_name = run_->problem_name;
  request.problem = problems.front();
  request.others.assign(problems.begin() + 1, problems.end());
  request.wall_ms = run_->options.capture_ms;
  request.mode = run_->options.mode;
  LeaseTerms terms;
  terms.resource = device_resource(run_->machine);
  terms.units = kAllUnits;
  place(terms, *run_, capability::capture);
  // The port keeps the time limit; the lease is longer, so that it can answer.
  terms.ttl_ms = run_->options.capture_ms * count + 30'000;
  return effects_.start(address::capture, request, terms, context);
}

void Extractor::captured(const EffectResult& end, Context& context) {
  if (end.failure) return finish(end.failure, context);
  const auto& reply = std::get<CaptureReply>(*end.reply);
  if (run_->options.dynamic_batch) return capture_sizes(reply.graph, context);
  cut(reply.graph, reply.from_library ? ", captured by an earlier run" : "",
      context);
}

/// Why the run cannot be for any batch, if that is asked.
Failure Extractor::without_sizes() const {
  const RunOptions& options = run_->options;
  if (!options.dynamic_batch) return {};
  const auto refused = [&options](const std::string& why) {
    return Failure{"wrong_input", size_flags(options) + " " + why};
  };
  if (!run_->graph.empty()) return refused("needs a problem file");
  const Target* target = find_target(options.target);
  if (target == nullptr || !target->takes_any_size) {
    return refused("has code for --target " + any_size_targets() +
                   ", and not for " + options.target);
  }
  if (!options.llm.name.empty()) return refused("asks no language model");
  for (const std::string& source : options.seeds) {
    if (source != "compiler" && source != kLibrarySource) {
      return refused("takes kernels of --seeds library,compiler, and not of " +
                     source);
    }
  }
  return {};
}

/// Of the dimensions that the options name.
Result<Sizes> Extractor::sizes_in(const Graph& graph) const {
  Sizes sizes;
  std::set<std::pair<int, int>> known;
  for (const SymbolicDim& symbol : symbolic_dims(run_->options)) {
    const auto [input, size] = size_in(graph, symbol);
    const std::string flag = size_flag(symbol);
    if (size < 2) {
      return fail(
          ErrorCode::wrong_input,
          flag + ": " +
              (symbol.input < 0 ? "the first tensor"
                                : "the input " + std::to_string(symbol.input)) +
              " of " + run_->problem_name + " has no dimension " +
              std::to_string(symbol.dim) +
              " of 2 or more, which would be of any size");
    }
    if (!known.insert({input, symbol.dim}).second) {
      return fail(ErrorCode::wrong_input,
                  size_flags(run_->options) + ": that is one dimension of " +
                      run_->problem_name + ", named twice");
    }
    sizes.push_back(size);
  }
  return sizes;
}

void Extractor::capture_sizes(const std::string& graph_blob, Context& context) {
  const auto text = context.blobs().get(graph_blob);
  if (!text) return finish({"failed", text.error().message}, context);
  auto graph = parse_graph(*text);
  if (!graph) return finish(to_failure(graph.error()), context);
  auto sizes = sizes_in(*graph);
  if (!sizes) return finish(to_failure(sizes.error()), context);
  const auto problem = context.blobs().get(run_->problem);
  if (!problem) return finish({"failed", problem.error().message}, context);
  sizes_ = std::move(*sizes);
  graphs_[sizes_] = graph_blob;
  graph->symbolic_shapes.sizes = sizes_;
  samples_ = sizes_to_capture(*graph);
  std::vector<std::string> problems;
  for (const Sizes& sample : samples_) {
    problems.push_back(context.blobs().put(
        problem_at(*problem, sample, symbolic_dims(run_->options))));
  }
  capture_of_samples_ = start_capture(problems, context);
  std::string own;
  for (const std::int64_t size : sizes_) {
    own += (own.empty() ? "" : " and ") + std::to_string(size);
  }
  context.send(address::user,
               Progress{"", "capture", "capturing other sizes than " + own});
}

void Extractor::captured_sizes(const EffectResult& end, Context& context) {
  std::vector<std::string> graphs;
  if (end.reply) {
    const auto& reply = std::get<CaptureReply>(*end.reply);
    if (!reply.graph.empty()) graphs.push_back(reply.graph);
    graphs.insert(graphs.end(), reply.others.begin(), reply.others.end());
  }
  if (end.failure || graphs.size() != samples_.size()) {
    // Without a reply, it says nothing of any one.
    const std::string where =
        end.reply && graphs.size() < samples_.size()
            ? "at " + sizes_text(samples_[graphs.size()]) + ": "
            : "";
    return finish({end.failure ? end.failure.code : "failed",
                   where + (end.failure ? end.failure.message
                                        : "the capture gave no graph")},
                  context);
  }
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    graphs_[samples_[i]] = graphs[i];
  }
  cut(graphs_.at(sizes_), "", context);
}

void Extractor::cut(const std::string& graph_blob, const std::string& how,
                    Context& context) {
  const auto text = context.blobs().get(graph_blob);
  if (!text) return finish({"failed", text.error().message}, context);
  const auto graph = parse_graph(*text);
  if (!graph) return finish({"failed", graph.error().message}, context);

  const Target* target = find_target(run_->options.target);
  if (!target) {
    return finish({"wrong_input", "no target '" + run_->options.target + "'"},
                  context);
  }

  CutOptions options;
  options.no_extern = run_->options.no_extern;
  options.for_sizes = run_->options.dynamic_batch;
  options.precision = run_->options.precision;
  options.others = others_of(run_->options.seeds);
  options.rates = device_rates(run_->machine);
  auto choices = choices_with(run_->options.choices);
  if (!choices) return finish(to_failure(choices.error()), context);
  options.choices = std::move(*choices);
  // Several ways to cut are only worth it where there is ample time for their
  // pieces, and where nobody cuts otherwise afterwards.
  const LlmOptions& model = run_->options.llm;
  const bool has_ways =
      can_time(run_->options, run_->machine) && !model.group && !model.fuse;
  const bool has_limit = run_->options.budget_ms > 0;
  // Modules of several cuts are compared by their times.
  const bool compares = times_module(run_->options, run_->machine);
  const auto has_time = [&](const Plan& plan) {
    if (!compares) return false;
    if (!has_limit) return true;
    const std::int64_t gone_ms = (context.now_us() - begun_us_) / 1'000;
    return is_ample(
        search_ms(run_->options, gone_ms, !spends_small_budgets(*run_)),
        all_subgraphs(plan).size(), run_->options);
  };
  if (!sizes_.empty()) {
    auto plan = plan_for_sizes(graphs_, sizes_, *target, options,
                               has_ways && compares && !has_limit,
                               size_flags(run_->options), context);
    if (!plan) return finish(to_failure(plan.error()), context);
    cut_ = std::move(*plan);
  } else if (!has_ways) {
    cut_ = partition(*graph, *target, options);
  } else {
    cut_ = partition_candidates(*graph, *target, options);
    if (!has_time(cut_))
      cut_ = partition_for_short_run(*graph, *target, options);
  }
  if (has_ways && sizes_.empty() && wants_inductor_cut(*run_)) {
    Plan with = cut_;
    add_inductor_cut(*graph, *target, options, with);
    if (has_time(with)) cut_ = std::move(with);
  }
  // Who cuts otherwise afterwards has no use for it.
  const bool seeks_products = run_->seeks_products && model.name.empty();
  const bool wants_kernelbench =
      (seeks_products || run_->options.accept != rule::weft) && !model.group &&
      !model.fuse && sizes_.empty();
  if (wants_kernelbench)
    add_eager_contractions_partition(*graph, *target, options, cut_);
  context.send(address::user, Progress{"", "extract", cut_summary(cut_) + how});
  if (model.group) return ask_grouping("", context);
  write_plan(context);
}

void Extractor::ask_grouping(const std::string& fault, Context& context) {
  auto prompt =
      grouping_prompt(cut_, run_->options.llm, fault, context.blobs());
  if (!prompt) {
    return grouped({0, {}, to_failure(prompt.error()), {}}, context);
  }
  ++proposals_;
  LlmCall call;
  call.priority = 2;  // all else waits for it
  call.purpose = "cut " + run_->problem_name;
  call.parts = std::move(*prompt);
  calls_.start(run_->options.llm, std::move(call), context);
  context.send(address::user, Progress{"", "extract",
                                       "asked " + run_->options.llm.name +
                                           " how to partition it"});
}

/// Without a proposal that can be, the compiler's cut stands.
void Extractor::grouped(const LlmEnd& end, Context& context) {
  Failure failure = end.failure;
  if (!failure) {
    const auto answer = end.choices.empty()
                            ? Result<std::string>("")
                            : context.blobs().get(end.choices.front().text);
    const auto groups =
        answer ? groups_in(*answer)
               : Result<CallGroups>(std::unexpected(answer.error()));
    auto plan = groups ? regroup(cut_, *groups)
                       : Result<Plan>(std::unexpected(groups.error()));
    if (plan) {
      take_proposal(std::move(*plan));
      context.send(
          address::user,
          Progress{"", "extract",
                   cut_summary(cut_) + ", as the language model groups it"});
      return write_plan(context);
    }
    failure = to_failure(plan.error());
    context.send(address::user,
                 Progress{"", "extract", "refused: " + failure.message});
    if (proposals_ < kProposalsMax) {
      std::string fault = failure.message;
      if (run_->options.llm.edition >= 2 && answer) {
        fault += refused_proposal(*answer);
      }
      return ask_grouping(fault, context);
    }
  }
  context.send(address::user, Progress{"", "extract",
                                       "partitioned as the compiler does: " +
                                           failure.message});
  write_plan(context);
}

/// Both modules are timed, the compiler's cut and this one.
void Extractor::take_proposal(Plan proposal) {
  Plan compilers = std::exchange(cut_, std::move(proposal));
  const bool is_timed = run_->options.llm.edition >= 2 &&
                        times_module(run_->options, run_->machine);
  const bool is_another = plan_to_json(compilers) != plan_to_json(cut_);
  if (!is_timed || !is_another) return;
  std::vector<Plan> others = std::exchange(compilers.others, {});
  compilers.eager_contractions_partition.clear();
  if (compilers.label.empty()) compilers.label = "the compiler's partition";
  cut_.label = "the language model's partition";
  cut_.others = {std::move(compilers)};
  cut_.others.insert(cut_.others.end(), others.begin(), others.end());
}

void Extractor::write_plan(Context& context) {
  plan_ = context.blobs().put(plan_to_json(cut_));
  WriteFilesRequest files;
  files.files = {{"subgraphs.json", context.blobs().put(subgraphs_json(cut_))}};
  effects_.start(address::files, files, {"disk", 1, "", 60'000}, context);
}

void Extractor::written(const EffectResult& end, Context& context) {
  if (end.failure) return finish(end.failure, context);
  is_over_ = true;
  context.send(address::dispatcher, Dispatch{plan_, *run_, begun_us_});
}

/// A run without a graph has nothing to deliver.
void Extractor::out_of_time(Context& context) {
  if (is_over_) return;
  finish({"failed", "the budget of " +
                        seconds_text(run_->options.budget_ms * 1'000) +
                        " was over before " + run_->problem_name +
                        " was captured; give it more with --budget-s"},
         context);
}

void Extractor::finish(const Failure& failure, Context& context) {
  is_over_ = true;
  context.send(address::user,
               RunFinished{exit_code_of(failure), failure.message});
}

}  // namespace weft
