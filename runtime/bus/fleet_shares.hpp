// The sharing rule of a fleet: which run each node serves, when many runs use
// the same nodes at once. Pure and deterministic.
//
//   A node serves one run at a time. So a timing has its device alone.
//   A run that no judge serves comes first. Runs are served in the order in
//   which they began.
//   Free judges beyond that help the runs that have fewest, except those that
//   are reserved for problems about to begin.
//   If one run has two judges more than another, it gives the newest one up.
//   Builders are dealt out the same way, without a reserve.
//
// It follows that no run waits while another has two judges, and that a run
// loses no judge that it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft {

class FleetShares {
 public:
  enum class Kind {
    unused,   ///< can do nothing for these runs
    builder,  ///< builds for judges
    judge,    ///< checks and times
  };
  /// A node that is to serve another run from now on; empty: none.
  struct Change {
    std::string node;
    std::string from;
    std::string to;
    bool operator==(const Change&) const = default;
  };

  void begin_run(const std::string& run);
  void end_run(const std::string& run);
  void join(const std::string& node, Kind kind);
  void leave(const std::string& node);
  /// So many free judges are left to problems that begin now.
  void reserve(std::size_t judges) { reserved_ = judges; }

  /// Deals the nodes out; what changes for nodes that are still here.
  std::vector<Change> settle();

  /// Empty: the node serves none.
  const std::string& run_of(const std::string& node) const;
  /// In the order in which they were given.
  std::vector<std::string> nodes_of(const std::string& run) const;
  std::size_t judges() const;

 private:
  struct Node {
    Kind kind = Kind::unused;
    std::string run;
    std::uint64_t given = 0;  ///< when: a number that only grows
  };
  void share(Kind kind, std::size_t reserved, std::vector<Change>& changes);
  void give(const std::string& name, const std::string& run,
            std::vector<Change>& changes);

  std::vector<std::string> runs_;  // in the order in which they began
  std::map<std::string, Node> nodes_;
  std::size_t reserved_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace weft
