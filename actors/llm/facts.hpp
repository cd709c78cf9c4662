// The facts in a prompt that do not depend on earlier tries: device, tolerance,
// share of the work, roofline, and what eager computes.
#pragma once

#include <string>
#include <vector>

#include "compiler/graph/subgraph.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

/// The device by its datasheet, and what code is built with: the same in all
/// runs on it.
std::string device_text(const OptimizeSubgraph& work);

/// The rates that were measured on it, in a line; empty: none were.
std::string rates_text(const Machine& machine);

/// How far each output may be from the float64 reference, by its dtype.
std::string tolerance_text(const Graph& graph);

/// The bytes that must move, and what inputs may be.
std::string floor_text(const Graph& graph);

/// Facts about eager that exactness depends on; empty: there are none.
std::string eager_facts(const Graph& graph, bool on_gpu);

/// Which sections of the template `idioms_…` fit a subgraph, by their titles.
std::vector<std::string> idioms_of(const Graph& graph);

/// The template's text before its first section, and the named sections.
std::string chosen_sections(const std::string& text,
                            const std::vector<std::string>& titles);

/// The least time of a subgraph by the device's measured rates.
struct Roofline {
  double bytes = 0;       ///< that must move
  double operations = 0;  ///< of arithmetic: one for each element of a call
  double us = 0;          ///< 0: the rates are not known
  bool by_memory = true;
  /// Instructions are no limit: moving the bytes takes much longer than the
  /// arithmetic.
  bool is_light = false;
  /// False: the bytes fit into the caches, so moving them is no bound.
  bool binds = false;
};
Roofline roofline_of(const Graph& graph, const Machine& machine);

/// The share of the model's work and the roofline, in sentences.
std::string share_text(const OptimizeSubgraph& work, const Roofline& roofline);

}  // namespace weft
