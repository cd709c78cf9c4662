// Effects that a role has under way. Every effect runs under a lease: first the
// broker is asked, then the port at the location that it grants, then the lease
// is given back. The lease's expiry is the effect's time limit, so an answer
// that never comes (a dead node, a lost message, a hung port) ends as a
// Failure, not as a hang; the work is stopped first, so that its units are free
// when others get them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/role.hpp"

namespace weft {

/// How an errand ended: with the port's reply, or with a failure.
struct EffectResult {
  std::uint64_t id = 0;
  std::optional<Message> reply;  ///< whatever the port said, if it did
  Failure failure;
  Location location{};  ///< where it was done last
  /// Places that went down while it was done there, or had no room left.
  int locations_lost = 0;
};

/// Files are written in milliseconds, unless many wait for the disk.
inline constexpr std::int64_t kDiskMs = 60'000;

/// What the errand needs while it runs.
struct LeaseTerms {
  std::string resource = "cpu";
  std::int64_t units = 1;
  std::string group;  ///< a subgraph's id, or empty
  std::int64_t ttl_ms = 60'000;
  std::vector<Location> locations{};  ///< that will do; empty: any
  int priority = 0;                   ///< higher goes first
  std::int64_t memory_bytes = 0;   ///< of the device's memory at the location
  std::int64_t expected_gain = 0;  ///< LeaseRequest's
  std::string capability{};        ///< LeaseRequest's
  std::int64_t wait_ms = 0;        ///< LeaseRequest's
};

/// A large number of units: the broker clips it to all there are.
inline constexpr int kAllUnits = 1'000'000;

class PendingEffects {
 public:
  /// Begins an errand; `request`'s effect number is set here. Returns its id.
  /// A failure that may pass (not wrong_input, not refused) is not the end
  /// before there were `tries` of them: each has an effect and a lease of its
  /// own. Two kinds of failure are no try: "overloaded" is asked again after
  /// the time that it names, and a location that is gone is replaced by
  /// another. What was lost with two locations is not taken to a third: it may
  /// be what brought them down. A location whose disk it may have filled
  /// answers "disk_full", and counts as lost, though it may be asked again. One
  /// that leaves of its own will answers "node_lost", and is none of the two.
  std::uint64_t start(const Address& port, Message request,
                      const LeaseTerms& terms, Context& context, int tries = 1);

  /// Takes one message; returns how an errand ended, if this ended one.
  /// Anything late, doubled or not ours is ignored.
  std::optional<EffectResult> receive(const Message& message, Context& context);

  /// Has the clock tell in so long: its TimerFired bears the number returned,
  /// which is no errand's.
  std::uint64_t timer(std::int64_t after_ms, Context& context);

  /// Gives up what still waits for its lease, or for its next try. What a port
  /// works on goes on, and ends as ever, but is not tried again.
  void withdraw(Context& context);

  /// Gives up everything: ports are told to stop. What a port works on ends
  /// when it has answered, as a failure "cancelled" or as ever.
  void cancel(const std::string& reason, Context& context);

  /// The same of one; its end is not told.
  void cancel(std::uint64_t id, const std::string& reason, Context& context);

  /// On a resume by another weft: that request was made, and not the one that
  /// was begun. It is what a next try asks for, too.
  void recall(const Message& request);

  bool idle() const { return open_.empty(); }

  /// As Role::describe: an array, one object an errand.
  nlohmann::json describe() const;

 private:
  enum class State {
    waiting,   ///< for its lease
    working,   ///< a port does it
    stopping,  ///< the port was told to stop
    resting,   ///< till the clock says that it may be tried again
  };
  struct Open {
    std::uint64_t id = 0;  ///< of the first try
    Address port;
    Message request;
    LeaseTerms terms;
    int tries = 1;  ///< left, the one under way included
    State state = State::waiting;
    bool is_wanted = true;        ///< false: it is not tried again
    Location location;            ///< granted
    std::vector<Location> avoid;  ///< those that went
    int locations_lost = 0;  ///< so often a location went down, or was full
    int overloads = 0;       ///< so often it was put off
  };
  using Entry = std::map<std::uint64_t, Open>::iterator;

  void attempt(Open open, std::uint64_t effect, Context& context);
  void stop(Entry entry, const std::string& reason, Context& context);
  void withdraw(Entry entry, Context& context);
  std::optional<EffectResult> expired(const LeaseExpired& expiry,
                                      Context& context);
  std::optional<EffectResult> locations_lost(const LeaseLost& loss,
                                             Context& context);
  void move_on(Entry entry, Context& context);
  std::optional<EffectResult> replied(std::uint64_t effect, Failure failure,
                                      const Message& reply, Context& context);
  void rest(Entry entry, std::int64_t after_ms, Context& context);
  std::optional<EffectResult> finish(std::uint64_t effect, Failure failure,
                                     std::optional<Message> reply,
                                     Context& context);

  std::map<std::uint64_t, Open> open_;  ///< by effect
  std::uint64_t next_ = 1;
};

}  // namespace weft
