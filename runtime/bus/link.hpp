// What makes one session between two peers reliable: numbers, acknowledgements,
// and sending again. Pure: time is a number that the caller gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "runtime/bus/frame.hpp"

namespace weft {

class Link {
 public:
  /// Not acknowledged for so long: sent again.
  static constexpr std::int64_t kResendMs = 2'000;
  static constexpr std::int64_t kResendMsMax = 30'000;
  /// Numbers that may be taken beyond the lowest that is missing.
  static constexpr std::uint64_t kAheadMax = 65'536;

  /// The number of the next frame to send.
  std::uint64_t next_seq() { return ++last_sent_; }

  /// Keeps a frame that was sent at `now_ms` until it is acknowledged.
  void sent(std::uint64_t seq, wire::Frame frame, std::int64_t now_ms);

  void acknowledged(const std::vector<wire::Range>& ranges);

  /// What is due again. They count as sent now.
  std::vector<wire::Frame> due(std::int64_t now_ms);
  std::size_t unacknowledged() const;

  enum class Taken {
    fresh,    ///< the first time
    again,    ///< a double
    foolish,  ///< a number that no honest peer would send
  };
  /// Notes that `seq` came in. A double of what is settled is acknowledged
  /// again: the first acknowledgement may have been lost.
  Taken take(std::uint64_t seq);

  /// What was taken need not come again: to be acknowledged.
  void settle(std::uint64_t seq);

  /// Acknowledgements since the last call, as few ranges; at most a header's
  /// worth of them, the rest comes with the next call.
  std::vector<wire::Range> take_acks();
  /// So many that take_acks() should not wait for more of them.
  bool owes_many_acks() const { return to_acknowledge_.size() >= kAcksAtOnce; }

 private:
  static constexpr std::size_t kAcksAtOnce = 32;
  struct Sent {
    std::uint64_t seq = 0;
    bool is_acknowledged = false;
    wire::Frame frame;
    std::int64_t due_ms = 0;
    std::int64_t interval_ms = kResendMs;
  };
  std::uint64_t last_sent_ = 0;
  std::deque<Sent> sent_;  // in order, from the first that is not acknowledged

  std::uint64_t floor_ = 0;            // all up to this were taken
  std::set<std::uint64_t> above_;      // taken beyond it
  std::set<std::uint64_t> unsettled_;  // taken, not yet settled
  std::set<std::uint64_t> to_acknowledge_;
};

}  // namespace weft
