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

/// Cuts the graph as it is; runs no passes. Calls in `apart` are not fused.
Plan partition(const Graph& model, const Lowerable& lowerable,
               const std::set<std::string>& apart = {},
               const FusionChoices& choices = {});

/// The plan whose pieces those regions are: no two of them wait for each other.
Plan plan_of(Graph model, Regions regions);

/// Gives views at the edge of a region back to the framework: a view that no
/// call of its region uses leaves it; one that is used inside and outside is
/// made a second time outside (nodes are added to `graph` for that), so that
/// what the model sees aliases what it aliases in eager mode.
/// Then dissolves regions without real work: only views, fills and copies
/// (but for large ones into another layout), or only arithmetic on single
/// numbers; and those that read nothing: on which device would they be?
void trim_regions(Graph& graph, Regions& regions,
                  const FusionChoices& choices = {});

/// Gives back selects and slices in front of regions that differ in nothing
/// else: what step t of a loop reads of its input.
void release_moving_views(const Graph& graph, Regions& regions,
                          const FusionChoices& choices = {});

/// Reorders the nodes so that each region's stand together, every node after
/// what it uses, impure calls in their old order, and else as before.
void order_by_region(Graph& graph, Regions& regions);

/// A region's calls as a graph of its own, canonically named, and which nodes
/// of the model its inputs and outputs are.
struct Extracted {
  Graph graph;
  std::vector<std::string> nodes;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

/// Extracts pieces of one graph: who uses what is looked up once.
class PieceExtractor {
 public:
  explicit PieceExtractor(const Graph& graph);

  /// The nodes at these places, in their order.
  Extracted extract(const std::vector<std::size_t>& places) const;

 private:
  const Graph& graph_;
  std::map<std::string, std::size_t> place_of_;
  std::vector<std::vector<std::size_t>> users_;
  std::set<std::string> visible_;  ///< results of the model
};

}  // namespace weft
