#include "runtime/bus/head_node.hpp"

#include <algorithm>

#include "runtime/bus/node_conduct.hpp"

namespace weft {

std::size_t credit(const HeadNode& node, int prefetch) {
  std::size_t slots = node.hello.devices.size();
  for (const auto& [resource, units] : node.hello.slots) {
    slots += static_cast<std::size_t>(units);
  }
  return slots + static_cast<std::size_t>(prefetch);
}

void want_missing(HeadNode& node, const HeadWork& work, std::int64_t now_ms) {
  if (node.receiver.idle()) node.piece_ms = now_ms;
  for (const wire::BlobRef& blob : work.blobs) {
    if (work.missing.contains(blob.hash)) {
      node.receiver.want(blob.hash, blob.size);
    }
  }
}

void ask_again(HeadNode& node, HeadWork& work) {
  if (work.reply_seq != 0) node.link.settle(work.reply_seq);
  work.reply_seq = 0;
  work.has_reply = false;
  work.is_sent = false;
  work.missing.clear();
  // Cancelled anew with the request, it has its time anew.
  node.cancelled_ms.erase(work.request.id);
  node.queue.push_back(work.request.id);
  node.acks_now = true;
}

void ask_all_again(HeadNode& node, std::int64_t now_ms) {
  node.queue.clear();
  node.in_flight = 0;
  for (auto& [id, work] : node.work) {
    work.reply_seq = 0;
    work.is_sent = false;
    if (!work.has_reply) node.queue.push_back(id);
    // One that was not what its hash says is asked for anew.
    want_missing(node, work, now_ms);
  }
}

std::string broken_word(const HeadNode& node, std::int64_t cancel_ms,
                        std::int64_t silence_ms, std::int64_t now_ms) {
  // A node may be away for so long, as if its machine stood still.
  const std::int64_t away_ms = silence_ms + NodeConduct::kReturnMs;
  const std::int64_t piece_ms = std::max(NodeConduct::kPieceMs, away_ms);
  cancel_ms = std::max(cancel_ms, away_ms);
  if (!node.receiver.idle() && now_ms - node.piece_ms > piece_ms) {
    return "no piece of its answer's files came for " +
           std::to_string(piece_ms / 1000) + " s";
  }
  for (const auto& [id, since_ms] : node.cancelled_ms) {
    const bool waits_for_blobs =
        node.work.at(id).has_reply || now_ms - node.wanted_ms < cancel_ms;
    const std::int64_t limit_ms =
        waits_for_blobs ? std::max(NodeConduct::kCancelMsMax, cancel_ms)
                        : cancel_ms;
    if (now_ms - since_ms < limit_ms) continue;
    return "it gave no answer to event " + std::to_string(id) +
           ", not even when that was cancelled";
  }
  return "";
}

}  // namespace weft
