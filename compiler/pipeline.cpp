// partition() for a target: passes first, then the cut along what it lowers.
#include <algorithm>
#include <functional>

#include "compiler/fusion/contraction_cost.hpp"
#include "compiler/fusion/partition.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/partition_labels.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/targets.hpp"

namespace weft {
namespace {

constexpr const char* kInOneCall = "attention in one call";
constexpr const char* kAsWritten = "attention as written";

Graph with_precision(Graph graph, const std::string& precision) {
  for (Node& node : graph.nodes) {
    if (precision == "strict") node.tf32 = false;
    if (precision == "tf32") {
      node.tf32 = node.kind == NodeKind::call && is_product(node.target) &&
                  !node.values.empty() && node.values.front() &&
                  node.values.front()->dtype == DType::f32;
    }
  }
  return graph;
}

/// Passes that suit every target.
Graph simplified(const Graph& model, const CutOptions& cut) {
  Graph graph = join_written_pieces(
      eliminate_common_subexpressions(eliminate_dead_code(model)));
  return cut.eager_contractions ? graph : einsum_by_pairs(graph);
}

/// Whether the call stays PyTorch's own: of TF32's rounding or a sum's
/// order only that makes the same.
std::function<Decision(const Node&)> keeps_eager_contraction(
    const Graph& graph, const CutOptions& cut) {
  if (!cut.eager_contractions) return [](const Node&) { return Decision(); };
  const Graph marked = with_precision(graph, cut.precision);
  const bool has_tf32 = std::ranges::any_of(marked.nodes, &Node::tf32);
  return [has_tf32](const Node& call) -> Decision {
    return {is_product(call.target) && (call.tf32 || !has_tf32),
            "this partition leaves products to PyTorch"};
  };
}

/// Whether a call that the compiler has no code for computes tensors from
/// tensors, so that a kernel from elsewhere could.
bool others_can(const Node& call) {
  const std::string& target = call.target;
  const bool gives_tensors =
      !call.values.empty() &&
      std::ranges::all_of(call.values,
                          [](const auto& value) { return value.has_value(); });
  return call.kind == NodeKind::call && target.starts_with("aten.") &&
         gives_tensors && !is_impure(target) && !is_view(target) &&
         !is_split(target) && !is_copy(target) && !is_fill(target);
}

/// The cut along what the target lowers and what others may write kernels for.
Plan cut_along(const Graph& graph, const Lowerable& lowerable,
               const CutOptions& cut, NoFuse no_fuse) {
  constexpr const char* separate =
      "has a kernel from elsewhere, and is a subgraph of its own";
  if (cut.others == CutOptions::Others::none) {
    return partition(graph, lowerable, no_fuse, cut.choices.fusion);
  }
  std::set<std::string> hand_written;
  for (const Node& node : graph.nodes) {
    if (node.target == "getitem") {
      // What is read of several results stays with the call that gives them.
      for_each_ref(node, [&](const std::string& tuple) {
        if (hand_written.contains(tuple) && no_fuse.contains(tuple)) {
          no_fuse.try_emplace(node.name, separate);
        }
      });
    }
    if (!others_can(node) || lowerable(graph, node)) continue;
    hand_written.insert(node.name);
    if (cut.others == CutOptions::Others::separate) {
      no_fuse.try_emplace(node.name, separate);
    }
  }
  return partition(
      graph,
      [&](const Graph& whole, const Node& call) -> Decision {
        if (hand_written.contains(call.name)) return true;
        return lowerable(whole, call);
      },
      no_fuse, cut.choices.fusion);
}

/// The captured graph, with attention as the cut wants it.
FusedAttention with_attention(const Graph& model, const CutOptions& cut) {
  using Attention = CutOptions::Attention;
  Graph graph = simplified(model, cut);
  if (cut.attention == Attention::written) return {std::move(graph), {}, false};
  return fuse_attention(graph, cut.attention == Attention::causal_flag
                                   ? AttentionMasks::causal_flag
                                   : AttentionMasks::explicit_mask);
}

/// The graph as a GPU's target cuts it, but for the layout that the library's
/// convolutions work in.
Graph prepared(Graph graph, const Lowerable& lowerable, const CutOptions& cut) {
  graph = with_precision(std::move(graph), cut.precision);
  if (!cut.no_extern && !cut.eager_contractions)
    graph = transposed_to_forward_convolution(graph);
  return separate_bias(std::move(graph), lowerable);
}

Relaid relaid(const Graph& graph, const Lowerable& lowerable,
              const CutOptions& cut) {
  if (!cut.relays) return {graph, {}};
  return convolve_channels_last(graph, lowerable, cut.choices.fusion);
}

/// What timing would have to decide.
struct Questions {
  bool contraction = false;  ///< ours or the library's
  bool layout = false;       ///< the library's channels last, or as captured
};

Questions questions_of(const Graph& model, const Target& target,
                       const CutOptions& cut) {
  Questions open;
  if (!target.on_gpu || cut.no_extern) return open;
  CutOptions generated = cut, vendor = cut;
  generated.undecided = CutOptions::Undecided::generated;
  vendor.undecided = CutOptions::Undecided::vendor;
  const auto lowerable = [&](const Graph& graph, const Node& call) {
    return target.can_lower(graph, call, vendor);
  };
  const Graph graph =
      prepared(with_attention(model, cut).graph, lowerable, vendor);
  for (const Node& node : graph.nodes) {
    open.contraction =
        open.contraction ||
        (choose_contraction(graph, node, cut) == ContractionChoice::undecided &&
         target.can_lower(graph, node, generated));
  }
  const Relaid moved = relaid(graph, lowerable, vendor);
  for (const auto& [name, bytes] : moved.copied_bytes) {
    open.layout = open.layout ||
                  layout_is_undecided(graph, *graph.find(name), bytes, cut);
  }
  return open;
}

bool are_alike(const Plan& a, const Plan& b) {
  return plan_to_json(a) == plan_to_json(b);
}

/// Attention as one call, in a cut each: with contested contractions in either
/// way, then with its masks given where a causal one was told.
void add_attention(const Graph& model, const Target& target, CutOptions cut,
                   Plan& plan) {
  using Attention = CutOptions::Attention;
  cut.attention = Attention::causal_flag;
  const FusedAttention fused = with_attention(model, cut);
  if (cut.no_extern || fused.calls.empty()) return;
  const auto cuts_max =
      plan.others.size() +
      static_cast<std::size_t>(cut.choices.contraction.attention_cuts_max);
  const auto add = [&](const std::string& label) {
    if (plan.others.size() >= cuts_max) return;
    Plan other = partition(model, target, cut);
    other.label = label;
    plan.others.push_back(std::move(other));
  };
  const std::string label_of_call = kInOneCall;
  if (questions_of(model, target, cut).contraction) {
    cut.undecided = CutOptions::Undecided::generated;
    add(label_of_call + ", " + kGeneratedContractions);
    cut.undecided = CutOptions::Undecided::vendor;
    add(label_of_call + ", " + kVendorContractions);
  } else {
    add(label_of_call);
  }
  cut.attention = Attention::explicit_mask;
  if (fused.has_causal) add(label_of_call + ", masks given");
  if (plan.label.empty()) plan.label = kAsWritten;
}

}  // namespace

Plan partition(const Graph& model, const Target& target,
               const CutOptions& cut) {
  FusedAttention start = with_attention(model, cut);
  const auto stays_eager = keeps_eager_contraction(start.graph, cut);
  const auto lowerable = [&](const Graph& graph, const Node& call) -> Decision {
    const auto side = cut.sides.find(call.name);
    if (side != cut.sides.end() && !side->second) {
      return {false, "the plan for any size leaves it to PyTorch"};
    }
    if (Decision eager = stays_eager(call)) return {false, eager.reason};
    return target.can_lower(graph, call, cut);
  };
  Plan plan;
  if (target.on_gpu) {
    const Relaid moved = relaid(
        prepared(std::move(start.graph), lowerable, cut), lowerable, cut);
    plan = cut_along(eliminate_dead_code(moved.graph), lowerable, cut,
                     moved.no_fuse);
  } else {
    plan = cut_along(with_precision(std::move(start.graph), "strict"),
                     lowerable, cut, {});
  }
  plan.fused_attention_calls = std::move(start.calls);
  return plan;
}

Plan partition_candidates(const Graph& model, const Target& target,
                          CutOptions cut) {
  const CutOptions original = cut;
  const Questions open = questions_of(model, target, cut);
  if (open.contraction) cut.undecided = CutOptions::Undecided::generated;
  Plan plan = partition(model, target, cut);
  const auto add = [&](const std::string& label) {
    Plan other = partition(model, target, cut);
    const bool is_known = are_alike(other, plan) ||
                          std::ranges::any_of(plan.others, [&](Plan earlier) {
                            earlier.label.clear();
                            return are_alike(earlier, other);
                          });
    const auto candidates_max =
        static_cast<std::size_t>(cut.choices.contraction.cuts_max);
    if (is_known || other.placements.empty() ||
        plan.others.size() + 1 >= candidates_max) {
      return;
    }
    other.label = label;
    plan.others.push_back(std::move(other));
  };
  cut.undecided = CutOptions::Undecided::vendor;
  if (open.contraction) add(kVendorContractions);
  cut.relays = false;
  if (open.layout)
    add("the vendor library's contractions in their captured layout");
  if (!plan.others.empty()) {
    plan.label = open.contraction
                     ? kGeneratedContractions
                     : "the vendor library's contractions channels last";
  }
  add_attention(model, target, original, plan);
  // Where only another has pieces it is the first. One that asks for another
  // operator is no stand-in for the model as it is written.
  if (plan.others.empty() || !plan.placements.empty() ||
      !plan.others.front().fused_attention_calls.empty()) {
    return plan;
  }
  std::vector<Plan> others = std::move(plan.others);
  plan = std::move(others.front());
  others.erase(others.begin());
  plan.others = std::move(others);
  return plan;
}

Plan partition_for_short_run(const Graph& model, const Target& target,
                             CutOptions cut) {
  cut.relays = false;
  Plan written = partition(model, target, cut);
  if (cut.no_extern) return written;
  cut.attention = CutOptions::Attention::causal_flag;
  Plan plan = partition(model, target, cut);
  if (plan.fused_attention_calls.empty()) return written;
  plan.label = kInOneCall;
  written.label = kAsWritten;
  plan.others = {std::move(written)};
  return plan;
}

void add_eager_contractions_partition(const Graph& model, const Target& target,
                                      CutOptions cut, Plan& plan) {
  if (cut.no_extern) return;
  cut.eager_contractions = true;
  cut.relays = false;
  cut.others = CutOptions::Others::none;
  Plan eager = partition(model, target, cut);
  if (eager.placements.empty()) return;
  if (plan.others.empty() && are_alike(eager, plan)) return;
  eager.label = "PyTorch's contractions";
  plan.eager_contractions_partition = {std::move(eager)};
}

std::vector<Subgraph> all_subgraphs(const Plan& plan) {
  std::vector<Subgraph> all = plan.subgraphs;
  for (const Plan& other : plan.others) {
    for (const Subgraph& subgraph : other.subgraphs) {
      if (std::ranges::find(all, subgraph.id, &Subgraph::id) == all.end()) {
        all.push_back(subgraph);
      }
    }
  }
  return all;
}

}  // namespace weft
