#include "runtime/bus/rate_limit.hpp"

#include <memory>
#include <utility>

namespace weft {
namespace {

/// Each of the most nodes that a run can have may join, and say a few words.
constexpr int kLinesMax = 5'000;
constexpr int kLinesPerSecond = 1;
constexpr std::size_t kLineBytesMax = 1'000;

struct Lines {
  RateLimit limit{kLinesMax, kLinesPerSecond};
  std::uint64_t left_out = 0;
};

}  // namespace

LogLine limited_log(LogLine log, std::function<std::int64_t()> now_ms) {
  if (!log) return log;
  return [log = std::move(log), now_ms = std::move(now_ms),
          lines = std::make_shared<Lines>()](const std::string& text) {
    if (!lines->limit.take(now_ms())) {
      ++lines->left_out;
      return;
    }
    if (lines->left_out > 0) {
      log(std::to_string(std::exchange(lines->left_out, 0)) +
          " lines about nodes were left out: there were too many");
    }
    log(text.size() <= kLineBytesMax ? text
                                     : text.substr(0, kLineBytesMax) + " …");
  };
}

}  // namespace weft
