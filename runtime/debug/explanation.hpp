// Why a run's model was partitioned as it was, why its kernels have their
// tiles, and which implementation of each subgraph runs. The reasons are those
// of the deciding code: the extractor is replayed over the journal, the code
// generator runs again on its subgraphs, and outcomes are read from the
// journal.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "compiler/choices/reasons.hpp"
#include "runtime/host/replay.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {

/// A partition of the model: the one that is searched first, or an alternative.
struct ExplainedPartition {
  std::string label;  ///< empty: there is no other
  std::vector<FusionReason> pairs;
  std::map<std::string, Decision> calls;         ///< by name
  std::map<std::string, std::string> operators;  ///< "aten.mm.default", by name
};

struct ExplainedSource {
  std::string target;
  std::string variant;
  std::vector<KernelReason> kernels;
};

struct ExplainedSubgraph {
  std::string id;
  std::string type;
  std::vector<std::string> calls;
  std::vector<ExplainedSource> sources;  ///< the one expected fastest first
  std::string failure;                   ///< why the compiler has none
  /// Of a run that judged it. `implementation`: who computes it in the module.
  std::string implementation{};
  std::string reason{};
  /// Target and variant of the best kernel, where one was found.
  std::pair<std::string, std::string> best{};
};

struct Explanation {
  std::string problem;
  std::string target;
  std::vector<ExplainedPartition> partitions;
  std::vector<ExplainedSubgraph> subgraphs;
  std::vector<std::string> notes;  ///< the composer's, on the whole module
  /// This weft partitions the model as the journal has it.
  bool is_as_recorded = true;
};

/// wrong_input: the run has no partition yet. failed: this weft's roles decide
/// otherwise than the recorded ones.
Result<Explanation> explain(const Journal& journal,
                            const Replay::MakeRole& make_role);

/// In sentences. With `all`, each variant of each subgraph, else the first of
/// each target.
std::string explanation_text(const Explanation& explanation, bool all);

nlohmann::json explanation_json(const Explanation& explanation);

}  // namespace weft
