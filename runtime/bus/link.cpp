#include "runtime/bus/link.hpp"

#include <algorithm>

namespace weft {
namespace {

constexpr std::size_t kRangesMax = 1024;

}  // namespace

void Link::sent(std::uint64_t seq, wire::Frame frame, std::int64_t now_ms) {
  Kept& kept = unacknowledged_[seq];
  kept.frame = std::move(frame);
  kept.due_ms = now_ms + kept.interval_ms;
  due_.emplace(kept.due_ms, seq);
}

void Link::acknowledged(const std::vector<wire::Range>& ranges) {
  for (const wire::Range& range : ranges) {
    auto next = unacknowledged_.lower_bound(range.first);
    while (next != unacknowledged_.end() && next->first <= range.last) {
      due_.erase({next->second.due_ms, next->first});
      next = unacknowledged_.erase(next);
    }
  }
}

std::vector<wire::Frame> Link::due(std::int64_t now_ms) {
  std::vector<wire::Frame> frames;
  while (!due_.empty() && due_.begin()->first <= now_ms) {
    const std::uint64_t seq = due_.begin()->second;
    due_.erase(due_.begin());
    Kept& kept = unacknowledged_.at(seq);
    kept.interval_ms = std::min(2 * kept.interval_ms, kResendMsMax);
    kept.due_ms = now_ms + kept.interval_ms;
    due_.emplace(kept.due_ms, seq);
    frames.push_back(kept.frame);
  }
  return frames;
}

std::optional<std::int64_t> Link::next_due_ms() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

Link::Taken Link::take(std::uint64_t seq) {
  if (seq == 0 || seq > floor_ + kAheadMax) return Taken::foolish;
  if (seq <= floor_ || above_.contains(seq)) {
    if (!unsettled_.contains(seq)) to_acknowledge_.insert(seq);
    return Taken::again;
  }
  above_.insert(seq);
  unsettled_.insert(seq);
  while (!above_.empty() && *above_.begin() == floor_ + 1) {
    above_.erase(above_.begin());
    ++floor_;
  }
  return Taken::fresh;
}

void Link::settle(std::uint64_t seq) {
  if (unsettled_.erase(seq) > 0) to_acknowledge_.insert(seq);
}

std::vector<wire::Range> Link::take_acks() {
  std::vector<wire::Range> ranges;
  while (!to_acknowledge_.empty()) {
    const std::uint64_t seq = *to_acknowledge_.begin();
    const bool extends = !ranges.empty() && ranges.back().last + 1 == seq;
    if (!extends && ranges.size() == kRangesMax) break;
    to_acknowledge_.erase(to_acknowledge_.begin());
    if (extends) {
      ranges.back().last = seq;
    } else {
      ranges.push_back({seq, seq});
    }
  }
  return ranges;
}

}  // namespace weft
