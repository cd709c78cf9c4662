#include "compiler/fusion/contraction_cost.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/fusion/product_count.hpp"
#include "compiler/graph/convolution_facts.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "messages/formatted.hpp"

namespace weft {
namespace {

double bytes_of(const Node& node) {
  double bytes = 0;
  for (const auto& value : node.values) {
    if (!value) continue;
    bytes += static_cast<double>(element_count(*value)) *
             static_cast<double>(element_bytes(value->dtype));
  }
  return bytes;
}

double operations_of(const ProductCount& count) {
  return static_cast<double>(count.matrix_operations +
                             count.convolution_operations +
                             count.half_operations);
}

/// How much more a matrix unit computes whose tile is wider than the channels.
double padding_of(const Convolution& convolution,
                  const ContractionChoices& choices) {
  const double outputs = static_cast<double>(
      convolution.transposed
          ? convolution.weight->shape[1]
          : convolution.weight->shape[0] /
                std::max<std::int64_t>(1, convolution.groups));
  if (outputs < 1) return 1;
  return std::ceil(outputs / choices.tile_min) * choices.tile_min / outputs;
}

bool is_depthwise(const Convolution& convolution) {
  return !convolution.transposed && convolution.weight->shape[1] == 1;
}

TimeRange range(const Work& work, const DeviceRates& rates,
                const ShareRange& arithmetic, const ShareRange& memory = {}) {
  return {cost_us(work, rates, {memory.most, arithmetic.most}),
          cost_us(work, rates, {memory.least, arithmetic.least})};
}

/// "12.3 to 40.0 us".
std::string range_text(const TimeRange& time) {
  return formatted("%.1f to %.1f us", time.least_us, time.most_us);
}

class Costing {
 public:
  Costing(const Graph& graph, const Node& call, const CutOptions& cut)
      : graph_(graph),
        call_(call),
        rates_(cut.rates),
        choices_(cut.choices.contraction),
        count_(count_product(graph, call)),
        convolution_(convolution_of(graph, call)) {
    work_.bytes = bytes_of(call);
    for_each_ref(call, [&](const std::string& name) {
      if (const Node* node = graph.find(name)) work_.bytes += bytes_of(*node);
    });
  }

  bool is_known() const { return operations_of(count_) > 0; }

  TimeRange generated() const {
    TimeRange time = bare();
    time.most_us += choices_.our_latency_us;
    return time;
  }

  TimeRange vendor() const { return vendor(vendor_shares()); }

  /// What follows is another kernel, which reads what this one has written.
  TimeRange vendor(const ShareRange& arithmetic) const {
    const bool is_thin = convolution_ && is_depthwise(*convolution_);
    TimeRange time = is_thin ? range(on_cores(), rates_, {},
                                     choices_.vendor_depthwise_memory)
                             : range(vendor_work(), rates_, arithmetic);
    if (is_single_call(graph_)) return time;
    const double more_us = cost_us({.bytes = 2 * bytes_of(call_)}, rates_);
    return {time.least_us + more_us, time.most_us + more_us};
  }

 private:
  TimeRange bare() const {
    if (convolution_ && is_depthwise(*convolution_)) {
      return range(on_cores(), rates_, {}, choices_.our_depthwise_memory);
    }
    Work work = work_;
    const double operations = operations_of(count_);
    if (count_.half_operations > 0) {
      work.half_operations = operations;
    } else {
      work.tf32_operations =
          operations * (call_.tf32 ? 1 : choices_.exact_passes);
    }
    if (!convolution_) {
      return range(work, rates_, choices_.our_product, choices_.our_memory);
    }
    const double padding = padding_of(*convolution_, choices_);
    work.tf32_operations *= padding;
    work.half_operations *= padding;
    return convolution_->transposed
               ? range(work, rates_, choices_.our_transposed,
                       choices_.our_transposed_memory)
               : range(work, rates_, choices_.our_convolution,
                       choices_.our_memory);
  }

  /// Each number once, on ordinary cores.
  Work on_cores() const {
    Work work = work_;
    work.fp32_operations = operations_of(count_);
    return work;
  }

  Work vendor_work() const {
    Work work = work_;
    const double operations = operations_of(count_);
    (count_.half_operations > 0 ? work.half_operations
     : call_.tf32               ? work.tf32_operations
                                : work.fp32_operations) = operations;
    return work;
  }

  ShareRange vendor_shares() const {
    if (!convolution_) return choices_.vendor_product;
    return convolution_->transposed ? choices_.vendor_transposed
                                    : choices_.vendor_convolution;
  }

  const Graph& graph_;
  const Node& call_;
  const DeviceRates& rates_;
  const ContractionChoices& choices_;
  ProductCount count_;
  std::optional<Convolution> convolution_;
  Work work_;  ///< without operations
};

}  // namespace

std::optional<ContractionCost> contraction_cost(const Graph& graph,
                                                const Node& call,
                                                const CutOptions& cut) {
  if (call.kind != NodeKind::call || !is_product(call.target)) return {};
  const Costing costing(graph, call, cut);
  if (!costing.is_known()) return {};
  return ContractionCost{costing.generated(), costing.vendor()};
}

ContractionDecision choose_contraction(const Graph& graph, const Node& call,
                                       const CutOptions& cut) {
  const auto cost = contraction_cost(graph, call, cut);
  if (!cost) return {ContractionChoice::generated, "it has no cost estimate"};
  const std::string times = "a generated kernel takes " +
                            range_text(cost->generated) +
                            ", the vendor library " + range_text(cost->vendor);
  if (cannot_win(cost->generated, cost->vendor)) {
    return {ContractionChoice::vendor,
            "by the cost model the vendor library is faster: " + times};
  }
  if (cannot_win(cost->vendor, cost->generated)) {
    return {ContractionChoice::generated,
            "by the cost model a generated kernel is faster: " + times};
  }
  return {ContractionChoice::undecided,
          "the cost model cannot tell which is faster: " + times};
}

bool layout_is_undecided(const Graph& graph, const Node& call,
                         double copied_bytes, const CutOptions& cut) {
  const Costing costing(graph, call, cut);
  const ContractionChoices& choices = cut.choices.contraction;
  TimeRange innermost = costing.vendor();
  if (copied_bytes > 0) {
    innermost.most_us += cost_us({.bytes = copied_bytes}, cut.rates);
  }
  return !cannot_win(costing.vendor(choices.vendor_convolution_rows),
                     innermost);
}

bool is_single_call(const Graph& graph) {
  const auto works = [](const Node& node) {
    return node.kind == NodeKind::call && node.target != "getitem" &&
           !is_view(node.target);
  };
  return std::ranges::count_if(graph.nodes, works) <= 1;
}

}  // namespace weft
