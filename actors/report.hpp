// What a run found, as text for people (report.md) and for tools (results.csv).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/graph/subgraph.hpp"
#include "messages/vocabulary.hpp"

namespace weft {

/// Where it is in the run directory.
inline constexpr const char* kKernelBenchModulePath =
    "composed/kernelbench/model_new.py";

/// The module that is near to eager, where the one that weft's rule accepts is
/// not.
struct KernelBenchModule {
  bool composed = false;
  std::string source;          ///< blob
  std::set<std::string> used;  ///< ids whose kernels are in it
  /// The framework's operators beside them, with how often each is called;
  /// empty where it is Model's own forward.
  std::map<std::string, int> externs;
  std::size_t stand_ins = 0;  ///< as in Report
  Verdict verdict;
  Timing timing;
};

struct Report {
  RunStart run;
  std::vector<SubgraphDone> subgraphs;  ///< in the plan's order
  std::set<std::string> used;           ///< ids whose kernels are in the whole
  /// Calls of the library's in the whole, each for several of the model's.
  std::size_t stand_ins = 0;
  KernelBenchModule kernelbench_module;
  Verdict verdict;  ///< of the composition
  Timing timing;    ///< of the composition
  ProbeReply machine;
  std::vector<std::string> notes;  ///< what was dropped, and why
  std::string rejected;  ///< why the composition was first found not right
};

/// One line: "verified: 2.31x over eager, 1.20x over torch.compile, …".
std::string summary_line(const Report& report);

/// In the words that follow "verified, but": why the module has no kernel of
/// ours. "" where it has.
std::string why_no_kernel(const Report& report);

std::string report_markdown(const Report& report, const Plan& plan);

/// One row a subgraph, then the row "model".
std::string results_csv(const Report& report, const Plan& plan);

}  // namespace weft
