// What the scheduler decides by how large something is. Code for any size must
// be the same loops at all of them: it is decided at one of the problem's order
// (usual_graph() in compiler/graph/growth.hpp), and the others follow. Whatever
// is decided, the loops compute the same.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace weft {

class Decisions {
 public:
  /// `followed`: those for the same program at another size, in the order in
  /// which they were made; null: this program's own.
  explicit Decisions(const std::vector<std::int64_t>* followed)
      : followed_(followed) {}

  /// What it comes to, or came to there.
  std::int64_t by_size(const auto& decide) {
    const bool follows =
        followed_ != nullptr && made_.size() < followed_->size();
    made_.push_back(follows ? (*followed_)[made_.size()]
                            : static_cast<std::int64_t>(decide()));
    return made_.back();
  }

  std::vector<std::int64_t> made() && { return std::move(made_); }

 private:
  const std::vector<std::int64_t>* followed_;
  std::vector<std::int64_t> made_;
};

}  // namespace weft
