// Partitions a captured model into subgraphs that get a kernel each. Subgraphs
// are convex (no path leaves one and comes back) and hold only calls that the
// compiler can lower. Equal subgraphs are stored once, with a count.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/choices/choices.hpp"
#include "compiler/choices/cost.hpp"
#include "compiler/choices/reasons.hpp"
#include "compiler/graph/graph.hpp"

namespace weft {

/// One distinct subgraph: a graph of its own, whose inputs are in call order.
struct Subgraph {
  std::string id;         ///< "sg_" and 12 hex digits of the signature's hash
  std::string signature;  ///< canonical text: ops, arguments, shapes, dtypes
  std::string type;       ///< for people: "layer_norm+gelu"
  Graph graph;            ///< only input and call nodes; names canonical
};

/// One occurrence of a distinct subgraph in the model.
struct Placement {
  std::string subgraph;              ///< Subgraph::id
  std::vector<std::string> nodes;    ///< the model's nodes that it replaces
  std::vector<std::string> inputs;   ///< the model's node for each input
  std::vector<std::string> outputs;  ///< the model's node for each output
};

/// The partitioned model. Calls of `model` that are in no placement stay
/// extern: PyTorch's own operators.
struct Plan {
  Graph model;
  std::vector<Subgraph> subgraphs;    ///< in order of first appearance
  std::vector<Placement> placements;  ///< in execution order
  /// Name of this partition, if there are several: "the library's
  /// contractions".
  std::string label{};
  /// Names of fused-attention calls that replace several of the model's calls.
  /// They make `model` differ from the captured model even where no kernel is
  /// used.
  std::vector<std::string> fused_attention_calls{};
  /// Alternative partitions of the same model, which only timing can tell from
  /// this one: whole plans, without others of their own.
  std::vector<Plan> others{};
  /// The partition in which all products are PyTorch's own. It is used if no
  /// other partition is within the tolerance, or none has a product in a
  /// kernel; subgraphs that only it has are searched for then, not before. At
  /// most one plan, whose own list is empty.
  std::vector<Plan> eager_contractions_partition{};
  /// Why neighbouring calls share a subgraph or do not, and why a call may be
  /// in a subgraph or stays PyTorch's, by name. Not part of the plan's JSON:
  /// reasons are for people, and a parsed plan has none.
  std::vector<FusionReason> fusion_reasons{};
  std::map<std::string, Decision> call_reasons{};
};

struct Target;

/// How a model is partitioned into kernels and extern calls.
struct CutOptions {
  /// Everything that has code gets a kernel, fast or not.
  bool no_extern = false;
  bool for_sizes =
      false;  ///< … that has code for any size (symbolic_shapes.hpp)
  /// RunOptions::precision: "framework" leaves products as the capture found
  /// them, "strict" makes none of them TF32, "tf32" all.
  std::string precision = "framework";
  /// Somebody else writes kernels for calls that the compiler has no code for.
  /// "separate" makes a subgraph of each such call, "fused" fuses it with its
  /// neighbours.
  enum class Others { none, separate, fused };
  Others others = Others::none;
  /// Implementation of products and convolutions for which the cost model is
  /// undecided. By default, products are generated and convolutions are the
  /// vendor library's.
  enum class Undecided { by_default, generated, vendor };
  Undecided undecided = Undecided::by_default;
  /// Attention that the model writes out: as written, or as one fused-attention
  /// call, with a causal mask passed by its flag or with all masks explicit.
  enum class Attention { written, causal_flag, explicit_mask };
  Attention attention = Attention::written;
  /// Products that PyTorch computes in TF32 stay PyTorch's, called as the model
  /// calls them. If PyTorch computes none in TF32, all products do.
  bool eager_contractions = false;
  /// Vendor convolutions work channels-last where that may be profitable.
  bool relays = true;
  /// Calls whose implementation is given, by name: false for PyTorch's, true
  /// for a kernel whatever it costs. Used for a model that is partitioned alike
  /// at several sizes.
  std::map<std::string, bool> sides{};
  DeviceRates rates{};  ///< of the device that the kernels are for
  Choices choices{};    ///< what is decided by speed alone
};

/// Partitions along what the target can lower. Deterministic: equal graphs give
/// equal plans.
Plan partition(const Graph& model, const Target& target,
               const CutOptions& cut = {});

/// The same with all alternative partitions that may be the fastest on a
/// device: undecided contractions generated or from the vendor library, vendor
/// convolutions channels-last or as captured, attention as written or as one
/// call. Partitions that the cost model rules out, or that leave no kernel, are
/// not included.
Plan partition_candidates(const Graph& model, const Target& target,
                          CutOptions cut = {});

/// For runs with little time: attention that the model writes out becomes one
/// call, and the one alternative has it as written. Convolutions keep the
/// model's layout, because another layout is profitable only if generated
/// kernels do the copies, and there may be no time to find these. Otherwise the
/// same as partition().
Plan partition_for_short_run(const Graph& model, const Target& target,
                             CutOptions cut = {});

/// Adds the model's eager-contractions partition to the plan, if that partition
/// has kernels and differs from a plan without alternatives.
void add_eager_contractions_partition(const Graph& model, const Target& target,
                                      CutOptions cut, Plan& plan);

/// A plan with the symbolic shapes of the model and of each subgraph. `models`
/// are captures of one model at several sizes, which must be partitioned alike.
/// `sizes` are those of one capture and become the plan's. wrong_input says
/// what does not hold for any size.
Result<Plan> partition_for_sizes(const std::map<Sizes, Graph>& models,
                                 const Sizes& sizes, const Target& target,
                                 const CutOptions& cut = {});

/// The same with the alternative partition in which undecided products are the
/// vendor library's, if that has kernels.
Result<Plan> partition_candidates_for_sizes(
    const std::map<Sizes, Graph>& models, const Sizes& sizes,
    const Target& target, CutOptions cut = {});

/// Such a plan at other sizes; unchanged if nothing is symbolic. Ids stay.
Result<Plan> plan_at(const Plan& plan, const Sizes& sizes);

/// The plan's distinct subgraphs and those of its alternatives, without those
/// of its eager-contractions partition.
std::vector<Subgraph> all_subgraphs(const Plan& plan);

/// Names of the operators that stay extern, with how often each occurs.
std::map<std::string, int> extern_counts(const Plan& plan);

/// The plan as JSON, to be sent as a blob; and back.
std::string plan_to_json(const Plan& plan);
Result<Plan> parse_plan(std::string_view json);

/// subgraphs.json (docs/reference/subgraphs.md): KernelAgent's fields, then
/// weft's.
std::string subgraphs_json(const Plan& plan);

/// reference.py: `def reference(x0, x1, …)` in ATen calls cut from the graph,
/// and INPUTS, the list of their shapes, strides and dtypes.
std::string reference_source(const Subgraph& subgraph);

/// problem.txt: the task in words, for a person or a language model.
std::string problem_text(const Subgraph& subgraph);

/// test_kernel.py: checks `kernel_function` of kernel.py beside it against
/// reference.py in float64; exit code 0 or 1.
std::string test_source(const Subgraph& subgraph);

}  // namespace weft
