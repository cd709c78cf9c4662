// Kernels of other sources as a language model can use them: without the
// definitions that they do not use, and in the form of an answer.
#pragma once

#include <string>

#include "actors/role.hpp"
#include "compiler/graph/subgraph.hpp"

namespace weft {

/// A file in the form that is asked for: around C++ of the compiler's, one that
/// builds and calls it. Other sources as they are.
Result<std::string> answer_form(const Seed& seed, const Graph& graph,
                                const LlmOptions& options, Blobs& blobs);

/// The best kernel of any source, with its times; empty: there is none.
std::string best_text(const RefineRequest& request, const Graph& graph,
                      Blobs& blobs);

/// The kernels of which one is to do the work; empty: there are none.
std::string parts_text(const OptimizeSubgraph& work, Blobs& blobs);

}  // namespace weft
