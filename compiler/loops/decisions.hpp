// Decisions of the scheduler that depend on sizes. Code for any size must have
// the same loops at all sizes, so decisions are made at hint_graph()
// (compiler/graph/symbolic_shapes.hpp) and replayed for the other sizes. They
// do not affect results.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace weft {

class Decisions {
 public:
  /// `followed`: decisions of the same program at hint_graph(), in the order in
  /// which they were made. Null: decide here.
  explicit Decisions(const std::vector<std::int64_t>* followed)
      : followed_(followed) {}

  /// The decision, or the followed one.
  std::int64_t by_size(const auto& decide) {
    const bool follows =
        followed_ != nullptr && decided_.size() < followed_->size();
    decided_.push_back(follows ? (*followed_)[decided_.size()]
                               : static_cast<std::int64_t>(decide()));
    return decided_.back();
  }

  std::vector<std::int64_t> decided() && { return std::move(decided_); }

 private:
  const std::vector<std::int64_t>* followed_;
  std::vector<std::int64_t> decided_;
};

}  // namespace weft
