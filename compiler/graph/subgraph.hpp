// Cuts a captured model into the pieces that get a kernel each. Pieces are
// convex (no path leaves one and comes back), hold only calls that the compiler
// can lower, and equal pieces are kept once, with a count.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/choices/choices.hpp"
#include "compiler/choices/cost.hpp"
#include "compiler/graph/graph.hpp"

namespace weft {

/// One distinct piece: a graph of its own, whose inputs are in call order.
struct Subgraph {
  std::string id;         ///< "sg_" and 12 hex digits of the signature's hash
  std::string signature;  ///< canonical text: ops, arguments, shapes, dtypes
  std::string type;       ///< for people: "layer_norm+gelu"
  Graph graph;            ///< only input and call nodes; names canonical
};

/// One place in the model where a distinct subgraph stands.
struct Placement {
  std::string subgraph;              ///< Subgraph::id
  std::vector<std::string> nodes;    ///< the model's nodes that it replaces
  std::vector<std::string> inputs;   ///< the model's node for each input
  std::vector<std::string> outputs;  ///< the model's node for each output
};

/// The cut model. Calls of `model` that are in no placement stay externs:
/// the framework's own operators.
struct Plan {
  Graph model;
  std::vector<Subgraph> subgraphs;    ///< in order of first appearance
  std::vector<Placement> placements;  ///< in execution order
  /// What is particular about this cut, where there are several: "library's".
  std::string way{};
  /// Calls of the library's, by name, that stand in for several of the model's:
  /// with them `model` is another than was captured, without a kernel, too.
  std::vector<std::string> stand_ins{};
  /// Other cuts of the same model, which only timing can tell from this one:
  /// whole plans, without others of their own.
  std::vector<Plan> others{};
  /// The cut whose products are the framework's own, for where no other is near
  /// to eager or has a product in a kernel; what only it has is searched for
  /// then, not before. One at most, without others of its own.
  std::vector<Plan> near_cut{};
};

/// What is particular about two cuts that only timing can tell apart.
inline constexpr const char* kOurContractions = "contractions of ours";
inline constexpr const char* kLibrarysContractions =
    "the library's contractions";

struct Target;

/// How a model is cut into what is ours and what stays the framework's.
struct CutOptions {
  bool no_extern = false;  ///< all that has code is ours, fast or not
  bool for_sizes = false;  ///< … that has code for any size (growth.hpp)
  /// RunOptions::precision: "framework" leaves products as the capture found
  /// them, "strict" makes none of them TF32, "tf32" all.
  std::string precision = "framework";
  /// Somebody writes kernels for calls that the compiler has no code for:
  /// "apart" cuts a piece of each such call, "fused" cuts along nothing else.
  enum class Others { none, apart, fused };
  Others others = Others::none;
  /// Whose are products and convolutions of which the cost model cannot tell:
  /// as is usual, products ours, convolutions the library's.
  enum class Contested { usual, ours, library };
  Contested contested = Contested::usual;
  /// Attention that the model writes out: as it does, or as one call of the
  /// library's, with a causal mask told to it, or all masks given.
  enum class Attention { written, told, given };
  Attention attention = Attention::written;
  /// What the framework computes in TF32 stays its own, called as the model
  /// calls it; where it computes nothing so, all products do.
  bool as_eager = false;
  /// The library's convolutions work channels last where that may pay.
  bool relays = true;
  /// Calls whose side is known, by their names: the framework's, or ours
  /// whatever they take. Of a model that is cut alike at several sizes.
  std::map<std::string, bool> sides{};
  DeviceRates rates{};  ///< of the device that the kernels are for
  Choices choices{};    ///< what is decided by speed alone
};

/// Along what the target can lower. Deterministic: equal graphs give equal
/// plans.
Plan partition(const Graph& model, const Target& target,
               const CutOptions& cut = {});

/// The same in every way that may be the fastest on a device, where timing can
/// decide: contested calls ours or the library's, the library's channels last
/// or as captured, attention as written or as one call. Ways that the cost
/// model rules out are not among them, nor those that leave nothing to us.
Plan partition_in_ways(const Graph& model, const Target& target,
                       CutOptions cut = {});

/// For runs with little time: with attention that the model writes out as one
/// call, and as written in its one other cut. Convolutions work in the layout
/// of the model: in another they gain only where kernels of ours, which there
/// may be no time to find, do the copies. Else the same as partition().
Plan partition_in_brief(const Graph& model, const Target& target,
                        CutOptions cut = {});

/// Gives the plan of that model its near cut, where that leaves something to us
/// and is no plan's only cut.
void add_near_cut(const Graph& model, const Target& target, CutOptions cut,
                  Plan& plan);

/// A plan in which the model's growth, and that of each piece, is known: of the
/// same model captured at several sizes, which must be cut alike. `sizes` are
/// those of one, and the plan's. wrong_input says what cannot be for any.
Result<Plan> partition_for_sizes(const std::map<Sizes, Graph>& models,
                                 const Sizes& sizes, const Target& target,
                                 const CutOptions& cut = {});

/// The same with the cut beside it in which contested products are the
/// library's, where that leaves something to us: timing decides.
Result<Plan> partition_for_sizes_in_ways(const std::map<Sizes, Graph>& models,
                                         const Sizes& sizes,
                                         const Target& target,
                                         CutOptions cut = {});

/// Such a plan at other sizes; itself where nothing grows. Ids stay.
Result<Plan> plan_at(const Plan& plan, const Sizes& sizes);

/// The plan's distinct subgraphs and those of its other cuts; without those of
/// its near cut.
std::vector<Subgraph> all_subgraphs(const Plan& plan);

/// Names of the operators that stay externs, with how often each occurs.
std::map<std::string, int> extern_counts(const Plan& plan);

/// The plan as JSON, to travel as a blob; and back.
std::string plan_to_json(const Plan& plan);
Result<Plan> parse_plan(std::string_view json);

/// subgraphs.json (docs/reference/subgraphs.md): KernelAgent's fields, then
/// ours.
std::string subgraphs_json(const Plan& plan);

/// reference.py: `def reference(x0, x1, …)` in ATen calls cut from the graph,
/// and INPUTS, the list of their shapes, strides and dtypes.
std::string reference_source(const Subgraph& subgraph);

/// problem.txt: what is asked, in words, for a person or a language model.
std::string problem_text(const Subgraph& subgraph);

/// test_kernel.py: checks `kernel_function` of kernel.py beside it against
/// reference.py in float64; exit code 0 or 1.
std::string test_source(const Subgraph& subgraph);

}  // namespace weft
