// A cut model as the state of who has it: the names of its pieces alone, since
// the whole is a blob that the journal has.
#pragma once

#include <nlohmann/json.hpp>

#include "compiler/graph/subgraph.hpp"

namespace weft {

inline nlohmann::json subgraph_ids(const Plan& plan) {
  auto ids = nlohmann::json::array();
  for (const Subgraph& subgraph : plan.subgraphs) ids.push_back(subgraph.id);
  return ids;
}

}  // namespace weft
