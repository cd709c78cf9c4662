// A run as one JSON document, made from its journal alone: what report.html and
// the live page show, and what the exports are made of. Also of a run that goes
// on or was killed: then `finished` is null and what is not known yet is null
// or absent. Its fields: docs/reference/report.md.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "messages/result.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {

/// Above these, the document says how many were left out (`left_out`).
struct ViewLimits {
  std::size_t candidates_max = 20'000;  ///< of the whole run
  std::size_t calls_max = 5'000;        ///< of language models
  std::size_t spans_max = 60'000;       ///< of the timeline
};

/// Strings in it may hold anything that a model, a problem or a reply said:
/// they are data for whoever shows them, never markup. Texts (sources, prompts,
/// replies, logs) are named by their blob's hash.
Result<nlohmann::json> run_view(const Journal& journal,
                                const ViewLimits& limits = {});

}  // namespace weft
