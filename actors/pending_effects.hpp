// Effects that a role has under way. Every effect runs under a lease: first the
// broker is asked, then the port at the location that it grants, then the lease
// is given back. The lease's expiry is the effect's time limit. If no reply
// comes (a dead node, a lost message, a hung port), the work is stopped, its
// units become free, and the effect ends with a Failure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/role.hpp"

namespace weft {

/// How an effect ended: with the port's reply, or with a failure.
struct EffectResult {
  std::uint64_t id = 0;
  std::optional<Message> reply;  ///< whatever the port said, if it did
  Failure failure;
  Location location{};  ///< The last location.
  /// Locations that were lost or had a full disk during the work.
  int locations_lost = 0;
};

/// Files are written in milliseconds, unless many wait for the disk.
inline constexpr std::int64_t kDiskMs = 60'000;

/// The lease that the effect needs while it runs.
struct LeaseTerms {
  std::string resource = "cpu";
  std::int64_t units = 1;
  std::string group;  ///< a subgraph's id, or empty
  std::int64_t ttl_ms = 60'000;
  // The other fields have the meaning that they have in LeaseRequest.
  std::vector<Location> locations{};
  int priority = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t expected_gain = 0;
  std::string capability{};
  std::int64_t wait_ms = 0;
};

/// A large number of units: the broker clips it to all there are.
inline constexpr int kAllUnits = 1'000'000;

class PendingEffects {
 public:
  /// Begins an effect; `request`'s effect number is set here. Returns its id.
  /// After a failure that may pass (not wrong_input, not refused) the work is
  /// tried again, `tries` times in all, each with a new effect and lease. Two
  /// kinds of failure do not count as tries. After "overloaded" the port is
  /// asked again at the time that it names. A location that is gone is replaced
  /// by another. Work that two locations were lost with is not taken to a
  /// third, because it may be the cause. A location that answers "disk_full"
  /// counts as lost, though it may be asked again. A location that leaves by
  /// itself answers "node_lost", and does not count as lost.
  std::uint64_t start(const Address& port, Message request,
                      const LeaseTerms& terms, Context& context, int tries = 1);

  /// Takes one message; returns how an effect ended, if this ended one.
  /// Anything late, doubled or not ours is ignored.
  std::optional<EffectResult> receive(const Message& message, Context& context);

  /// Has the clock tell in so long: its TimerFired bears the number returned,
  /// which is no effect's.
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

  /// As Role::describe: an array, one object an effect.
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
