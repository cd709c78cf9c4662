// Records of why the compiler decided as it did. The code that decides fills
// them, and `weft explain` prints them. No decision reads them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft {

/// A yes or no, and its reason: a clause without a full stop. It may be empty
/// if the answer is obvious.
struct Decision {
  // NOLINTNEXTLINE(google-explicit-constructor): a plain answer is a decision.
  Decision(bool is_yes = false, std::string why = {})
      : yes(is_yes), reason(std::move(why)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): used as a condition.
  operator bool() const { return yes; }

  bool yes;
  std::string reason;
};

/// Why two neighbouring calls of a graph share a subgraph, or do not.
struct FusionReason {
  std::string producer;  ///< the nodes' names
  std::string consumer;
  bool is_fused = false;
  std::string reason;
  bool operator==(const FusionReason&) const = default;
};

/// One of several possibilities, with its time by the cost model.
struct EstimatedOption {
  std::string name;
  double us = 0;
  bool operator==(const EstimatedOption&) const = default;
};

/// Why a kernel of a source stands by itself, and why it has its tile.
struct KernelReason {
  std::string kernel;  ///< its name in the source: "kernel0"
  std::string calls;   ///< the calls that it computes, for people
  std::string nest;    ///< why these calls are in one kernel
  std::string tile;    ///< "128x64", "2 rows of 4096"
  std::string reason;  ///< why it has that tile
  std::vector<EstimatedOption> options{};  ///< compared by the cost model
};

}  // namespace weft
