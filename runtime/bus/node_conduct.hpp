// Faults of nodes that no honest node makes, and the nodes that the head no
// longer trusts. A node may be hostile, or its machine broken. In both cases
// its work must go to another location. Pure. Names stay known when a node
// leaves, so that it does not begin anew by joining again.
#pragma once

#include <map>
#include <string>

#include "runtime/bus/frame.hpp"

namespace weft {

class NodeConduct {
 public:
  /// Faults of a node before it is distrusted: broken frames, wrong blobs,
  /// answers of another kind.
  static constexpr int kFaultsMax = 3;
  /// A node has so long to answer a request that was cancelled. A port stops
  /// within a second or two. Less than the time that the broker grants an
  /// expired lease (kGraceMs in actors/extractor.cpp), so that the work does
  /// not go to the same node again.
  static constexpr std::int64_t kCancelMs = 25'000;
  /// The same for a node that waits for blobs over a slow link.
  static constexpr std::int64_t kCancelMsMax = 300'000;
  /// A node that was away has so long after its return.
  static constexpr std::int64_t kReturnMs = 10'000;
  /// Blobs of an answer may not stand still for so long.
  static constexpr std::int64_t kPieceMs = 60'000;

  struct Distrusted {
    wire::Hello hello;
    std::string why;
  };

  /// Counts a fault. True: it was one too many.
  bool add_fault(const std::string& node) {
    return ++faults_[node] > kFaultsMax;
  }
  void distrust(const wire::Hello& hello, const std::string& why) {
    distrusted_[hello.name] = {hello, why};
  }
  /// Why that node is refused; empty: it is not.
  std::string why_refused(const std::string& node) const {
    const auto found = distrusted_.find(node);
    return found == distrusted_.end()
               ? ""
               : "the head does not trust it: " + found->second.why;
  }
  const std::map<std::string, Distrusted>& distrusted() const {
    return distrusted_;
  }

 private:
  std::map<std::string, int> faults_;
  std::map<std::string, Distrusted> distrusted_;
};

}  // namespace weft
