// The steps of partition() (compiler/graph/subgraph.hpp), with the question
// "can the compiler lower this call?" as a parameter.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/choices/fusion_choices.hpp"
#include "compiler/fusion/cluster.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

/// Partitions the graph as it is, without passes. Calls in `no_fuse` are not
/// fused with others.
Plan partition(const Graph& model, const Lowerable& lowerable,
               const NoFuse& no_fuse = {}, const FusionChoices& choices = {});

/// The plan whose subgraphs are those regions. No two regions depend on each
/// other in a cycle.
Plan plan_of(Graph model, Regions regions);

/// Returns views at the edge of a region to PyTorch. A view that no call of its
/// region uses leaves the region; one that is used inside and outside is
/// duplicated outside (nodes are added to `graph` for that), so that the
/// model's results alias what they alias in eager mode.
///
/// Then dissolves regions without real work: only views, fills and copies
/// (except large copies into another layout), or only arithmetic on single
/// numbers. Regions that read nothing are dissolved too, because their device
/// is unknown.
void drop_trivial_regions(Graph& graph, Regions& regions,
                          const FusionChoices& choices = {});

/// Returns selects and slices to PyTorch if they are in front of regions that
/// differ in nothing else: what step t of a loop reads of its input.
void hoist_loop_slices(const Graph& graph, Regions& regions,
                       const FusionChoices& choices = {});

/// Reorders the nodes so that each region's nodes are contiguous, every node
/// follows what it uses, impure calls keep their order, and all else keeps its
/// order.
void order_by_region(Graph& graph, Regions& regions);

/// A region's calls as a graph of its own with canonical names, and the model's
/// nodes that its inputs and outputs are.
struct Extracted {
  Graph graph;
  std::vector<std::string> nodes;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

/// Extracts subgraphs of one graph; the users of each node are looked up once.
class PieceExtractor {
 public:
  explicit PieceExtractor(const Graph& graph);

  /// The nodes at these indices, in their order.
  Extracted extract(const std::vector<std::size_t>& indices) const;

 private:
  const Graph& graph_;
  std::map<std::string, std::size_t> index_of_;
  std::vector<std::vector<std::size_t>> users_;
  std::set<std::string> visible_;  ///< results of the model
};

}  // namespace weft
