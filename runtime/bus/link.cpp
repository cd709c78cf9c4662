#include "runtime/bus/link.hpp"

#include <algorithm>

namespace weft {
namespace {

constexpr std::size_t kRangesMax = 1024;

}  // namespace

void Link::sent(std::uint64_t seq, wire::Frame frame, std::int64_t now_ms) {
  Sent& sent = sent_.emplace_back();
  sent.seq = seq;
  sent.frame = std::move(frame);
  sent.due_ms = now_ms + sent.interval_ms;
}

void Link::acknowledged(const std::vector<wire::Range>& ranges) {
  for (const wire::Range& range : ranges) {
    auto stored = std::ranges::lower_bound(sent_, range.first, {}, &Sent::seq);
    for (; stored != sent_.end() && stored->seq <= range.last; ++stored) {
      stored->is_acknowledged = true;
      stored->frame = {};
    }
  }
  while (!sent_.empty() && sent_.front().is_acknowledged) sent_.pop_front();
}

std::vector<wire::Frame> Link::due(std::int64_t now_ms) {
  std::vector<wire::Frame> frames;
  for (Sent& sent : sent_) {
    if (sent.is_acknowledged || sent.due_ms > now_ms) continue;
    sent.interval_ms = std::min(2 * sent.interval_ms, kResendMsMax);
    sent.due_ms = now_ms + sent.interval_ms;
    frames.push_back(sent.frame);
  }
  return frames;
}

std::size_t Link::unacknowledged() const {
  return static_cast<std::size_t>(
      std::ranges::count(sent_, false, &Sent::is_acknowledged));
}

Link::Taken Link::take(std::uint64_t seq) {
  if (seq == 0 || seq > floor_ + kAheadMax) return Taken::foolish;
  if (seq <= floor_ || above_.contains(seq)) {
    if (!unsettled_.contains(seq)) to_acknowledge_.insert(seq);
    return Taken::again;
  }
  unsettled_.insert(seq);
  if (seq == floor_ + 1) {
    ++floor_;
  } else {
    above_.insert(seq);
  }
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
