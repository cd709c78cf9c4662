// How often a peer may cause something that is kept: a line of the log, an
// event in the journal. Peers with a key can be hostile, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

namespace weft {

/// A token bucket: a burst, then a steady rate. Not thread-safe.
class RateLimit {
 public:
  RateLimit(int burst, int per_second)
      : burst_(burst), per_second_(per_second), tokens_ms_(burst * kSecondMs) {}

  /// Whether one more fits now.
  bool take(std::int64_t now_ms) {
    tokens_ms_ += per_second_ * std::max<std::int64_t>(0, now_ms - last_ms_);
    tokens_ms_ = std::min(tokens_ms_, burst_ * kSecondMs);
    last_ms_ = std::max(last_ms_, now_ms);
    if (tokens_ms_ < kSecondMs) return false;
    tokens_ms_ -= kSecondMs;
    return true;
  }

 private:
  static constexpr std::int64_t kSecondMs = 1'000;
  std::int64_t burst_;
  std::int64_t per_second_;
  std::int64_t tokens_ms_;  // a token is a second's worth
  std::int64_t last_ms_ = 0;
};

using LogLine = std::function<void(const std::string&)>;

/// The same log, for lines that peers can cause: beyond a limit, lines are left
/// out and counted, and long ones are cut. For one thread at a time. Empty if
/// `log` is.
LogLine limited_log(LogLine log, std::function<std::int64_t()> now_ms);

}  // namespace weft
