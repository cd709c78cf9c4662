// Effects that a role has under way. Every effect runs under a lease: first the
// broker is asked, then the port, then the lease is given back. The lease's
// expiry is the effect's time limit, so an answer that never comes (a dead
// node, a lost message, a hung port) ends as a Failure, not as a hang.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "actors/role.hpp"

namespace weft {

/// How an errand ended: with the port's reply, or with a failure.
struct ErrandEnd {
  std::uint64_t id = 0;
  std::optional<Message> reply;  ///< whatever the port said, if it did
  Failure failure;
};

/// What the errand needs while it runs.
struct LeaseTerms {
  std::string resource = "cpu";
  int units = 1;
  std::string group;  ///< a subgraph's id, or empty
  std::int64_t ttl_ms = 60'000;
};

/// A large number of units: the broker clips it to all there are.
inline constexpr int all_units = 1'000'000;

class Errands {
 public:
  /// Begins an errand; `request`'s effect number is set here. Returns its id.
  /// A failure that may pass (not wrong_input, not refused) is not the end
  /// before there were `tries` of them: each has an effect and a lease of its
  /// own.
  std::uint64_t start(const Address& port, Message request,
                      const LeaseTerms& terms, Context& context, int tries = 1);

  /// Takes one message; returns how an errand ended, if this ended one.
  /// Anything late, doubled or not ours is ignored.
  std::optional<ErrandEnd> receive(const Message& message, Context& context);

  /// Gives up what still waits for its lease. What a port works on goes on,
  /// and ends as ever, but is not tried again.
  void withdraw(Context& context);

  bool idle() const { return open_.empty(); }

 private:
  struct Open {
    std::uint64_t id = 0;  ///< of the first try
    Address port;
    Message request;
    LeaseTerms terms;
    int tries = 1;  ///< left, the one under way included
    bool granted = false;
  };
  void attempt(Open open, std::uint64_t effect, Context& context);
  std::optional<ErrandEnd> finish(std::uint64_t effect, Failure failure,
                                  std::optional<Message> reply,
                                  Context& context);

  std::map<std::uint64_t, Open> open_;  ///< by effect
  std::uint64_t next_ = 1;
};

}  // namespace weft
