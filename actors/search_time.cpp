#include "actors/search_time.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "actors/device.hpp"
#include "actors/llm/seeds.hpp"
#include "compiler/fusion/product_count.hpp"
#include "compiler/graph/graph_check.hpp"

namespace weft {
namespace {

/// A check of the whole starts the processes that a capture starts, and runs
/// the model some times more often; but it is no use to have searched for less
/// than half of the time.
constexpr std::int64_t kCapturesACheck = 2;
/// With less than this, most of a capture is the start of its processes. The
/// search starts those that the check needs, so the check takes no longer than
/// a capture.
constexpr std::int64_t kShortBudgetMs = 40'000;
/// With no more than this, all that the capture leaves is the search's. The
/// check is made when the budget is over: its processes are there, so that it
/// takes 0.2 to 0.5 s for a small model (two cores, 2026-11-30).
constexpr std::int64_t kTinyBudgetMs = 10'000;
constexpr std::int64_t kLeastKept = 4;  ///< a quarter
constexpr std::int64_t kMostKept = 2;   ///< half
/// Time to build, check and time a kernel, with all that is asked meanwhile,
/// while other runs use the device, too (H100, four runs, 2026-11-28).
constexpr std::int64_t kKernelMs = 5'000;
/// One that is checked and timed, and no more: a second with a GPU alone, 3.2 s
/// beside three other runs.
constexpr std::int64_t kBriefKernelMs = 2'000;
/// Time for a kernel without its timing, if the run's user times the module.
/// With a timing of 0.18 s a kernel took 0.57 s on an idle H200, and 1 s while
/// another run used it (2026-11-30). A kernel for each subgraph is worth more
/// than one more for the first.
constexpr std::int64_t kBesideTimingMs = 800;
constexpr std::int64_t kKernelsMin = 2;
/// Operations for which a processor takes as long as for moving a byte: from 8
/// (a core with AVX2) to 14 (an H200, float32). Datasheets.
constexpr double kOperationsAByte = 10;

std::int64_t kernel_ms(const RunOptions& options) {
  return options.final_timing_ms > 0 ? kBriefKernelMs
                                     : kBesideTimingMs + options.timing_ms;
}

double cost_of(const Graph& graph) {
  const ProductCount products = count_products(graph);
  const double operations = static_cast<double>(
      products.matrix_operations + products.convolution_operations);
  return std::max(static_cast<double>(edge_bytes(graph)),
                  operations / kOperationsAByte);
}

/// The cost of a call that stays an operator: its tensors, or its operations.
double call_cost(const Graph& graph, const Node& call) {
  const ProductCount products = count_product(graph, call);
  double bytes = 0;
  const auto add = [&](const Node& node) {
    for (const auto& type : node.values) {
      if (!type) continue;
      bytes += static_cast<double>(element_count(*type) *
                                   element_bytes(type->dtype));
    }
  };
  add(call);
  for_each_ref(call, [&](const std::string& name) {
    if (const Node* node = graph.find(name)) add(*node);
  });
  const double operations = static_cast<double>(
      products.matrix_operations + products.convolution_operations);
  return std::max(bytes, operations / kOperationsAByte);
}

}  // namespace

std::int64_t search_ms(const RunOptions& options, std::int64_t gone_ms,
                       bool is_earlier) {
  const std::int64_t budget_ms = options.budget_ms;
  if (budget_ms <= kTinyBudgetMs && !is_earlier) {
    return std::max<std::int64_t>(0, budget_ms - gone_ms);
  }
  // A minute or two have no room for torch.compile, whatever is kept.
  const bool compiles =
      options.compile_baseline && budget_ms / kMostKept >= kCompileLeftMs;
  // If the module's user times it, a kernel is judged in half a second, and a
  // check that does not end in time costs all of them.
  const bool is_brief =
      budget_ms < kShortBudgetMs && options.final_timing_ms > 0;
  const std::int64_t captures = is_brief ? 1 : kCapturesACheck;
  const std::int64_t stored =
      std::clamp(captures * gone_ms + (compiles ? kCompileLeftMs : 0),
                 budget_ms / kLeastKept, budget_ms / kMostKept);
  return std::max<std::int64_t>(0, budget_ms - gone_ms - stored);
}

bool is_ample(std::int64_t search_ms, std::size_t subgraphs,
              const RunOptions& options) {
  const auto kernels =
      static_cast<std::int64_t>(subgraphs) * std::max(1, options.variants_max);
  return search_ms >= kernels * kKernelMs &&
         std::ranges::find(options.seeds, kLlmSource) == options.seeds.end();
}

int kernels_each(std::int64_t left_ms, std::size_t subgraphs,
                 const RunOptions& options) {
  const auto one_each =
      static_cast<std::int64_t>(subgraphs) * kernel_ms(options);
  const std::int64_t nearest =
      (left_ms + one_each / 2) / std::max<std::int64_t>(1, one_each);
  const std::int64_t most = std::max(1, options.variants_max);
  if (left_ms < kLeastShareMs) return 1;
  return static_cast<int>(std::min(std::max(nearest, kKernelsMin), most));
}

int kernels_by_share(std::int64_t left_ms, double share, std::size_t others,
                     int least, const RunOptions& options) {
  const double all =
      static_cast<double>(left_ms) / static_cast<double>(kernel_ms(options));
  const double kept =
      static_cast<double>(kKernelsMin) * static_cast<double>(others);
  const double most = std::max(least, options.variants_max);
  return static_cast<int>(std::clamp(std::min(all * share, all - kept),
                                     static_cast<double>(least), most));
}

std::size_t subgraphs_at_once(std::int64_t left_ms, std::size_t jobs) {
  const auto fitting = static_cast<std::size_t>(
      std::max<std::int64_t>(1, left_ms / kLeastShareMs));
  return std::min(jobs, fitting);
}

std::string seconds_text(std::int64_t us) {
  const std::int64_t tenths = us / 100'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string time_spent(const Compose& compose, std::int64_t now_us) {
  return "Time: of the budget of " +
         std::to_string(compose.run.options.budget_ms / 1'000) + " s, " +
         seconds_text(compose.captured_us - compose.begun_us) +
         " went to the capture, " +
         seconds_text(compose.searched_us - compose.captured_us) +
         " to the search, " + seconds_text(now_us - compose.searched_us) +
         " to checking and timing the module";
}

double work_share(const Plan& plan, const Subgraph& subgraph) {
  const auto count_in = [&](const Plan& cut) {
    return std::ranges::count(cut.placements, subgraph.id,
                              &Placement::subgraph);
  };
  std::vector<const Plan*> cuts = {&plan};
  for (const Plan& other : plan.others) cuts.push_back(&other);
  const auto cut = std::ranges::find_if(
      cuts, [&](const Plan* plan) { return count_in(*plan) > 0; });
  if (cut == cuts.end()) return 0;
  std::map<std::string, double> costs;
  for (const Subgraph& entry : all_subgraphs(plan)) {
    costs[entry.id] = cost_of(entry.graph);
  }
  std::set<std::string> inside;
  double all = 0;
  for (const Placement& placement : (*cut)->placements) {
    inside.insert(placement.nodes.begin(), placement.nodes.end());
    all += costs[placement.subgraph];
  }
  for (const Node& node : (*cut)->model.nodes) {
    if (node.kind == NodeKind::call && !inside.contains(node.name)) {
      all += call_cost((*cut)->model, node);
    }
  }
  const double own = costs[subgraph.id] * static_cast<double>(count_in(**cut));
  return all > 0 ? std::min(1.0, own / all) : 0;
}

SearchShares::SearchShares(const Plan& plan) {
  for (const Subgraph& subgraph : plan.subgraphs) {
    const auto count_in = [&](const Plan& cut) {
      return std::ranges::count(cut.placements, subgraph.id,
                                &Placement::subgraph);
    };
    auto count = count_in(plan);
    for (const Plan& other : plan.others) {
      count = std::max(count, count_in(other));
    }
    costs_[subgraph.id] = static_cast<double>(count) * cost_of(subgraph.graph);
  }
  order_.resize(plan.subgraphs.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_, std::greater(), [&](std::size_t i) {
    return costs_.at(plan.subgraphs[i].id);
  });
}

std::int64_t SearchShares::cost(const std::string& subgraph) const {
  const auto found = costs_.find(subgraph);
  return found == costs_.end() ? 0 : static_cast<std::int64_t>(found->second);
}

double SearchShares::share(const std::string& subgraph) const {
  double all = 0;
  for (const auto& [id, cost] : costs_) all += cost;
  const auto own = costs_.find(subgraph);
  return own == costs_.end() ? 0 : all > 0 ? own->second / all : 1;
}

std::int64_t SearchShares::take(const std::string& subgraph,
                                std::int64_t left_ms, std::size_t jobs) {
  const double share = this->share(subgraph);
  costs_.erase(subgraph);
  const auto ms = static_cast<std::int64_t>(share * static_cast<double>(jobs) *
                                            static_cast<double>(left_ms));
  return std::min(std::max(ms, static_cast<std::int64_t>(jobs) * kLeastShareMs),
                  left_ms);
}

}  // namespace weft
