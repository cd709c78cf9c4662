// A subgraph's search as the files of a KernelAgent session, for tools that
// read those: problem.txt, reference.py, test.py, seed_i.py, final_kernel.py
// and result.json (docs/reference/language-models.md says what is in them).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/role.hpp"

namespace weft {

/// A seed, what became of it, and when that was known.
struct SessionTry {
  SeedResult result;
  std::int64_t at_us = 0;
};

/// Paths are relative to the run directory: kernels/ID/session/… `tries`: by
/// seed, those of the language model and those that they came of.
Result<std::vector<FileToWrite>> session_files(
    const OptimizeSubgraph& work, const SubgraphDone& done,
    const std::map<std::string, SessionTry>& tries, Blobs& blobs);

/// kernels/summary.json: all subgraphs, in the plan's order.
std::string sessions_summary(const std::vector<SubgraphDone>& all);

}  // namespace weft
