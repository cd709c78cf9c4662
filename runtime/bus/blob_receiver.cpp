#include "runtime/bus/blob_receiver.hpp"

#include <algorithm>

#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

/// A piece that took less: the link has room. One that took more: it is full.
constexpr std::int64_t kQuickMs = 200;
constexpr std::int64_t kSlowMs = 1'000;

}  // namespace

bool BlobReceiver::want(const std::string& hash, std::uint64_t size) {
  if (blobs_.contains(hash)) return true;
  if (blobs_.size() >= kWaitingMax) return false;
  blobs_[hash].size = size;
  order_.push_back(hash);
  return true;
}

void BlobReceiver::forget(const std::string& hash) {
  const auto found = blobs_.find(hash);
  if (found == blobs_.end()) return;
  in_flight_ -= static_cast<int>(found->second.asked_ms.size());
  blobs_.erase(found);
  std::erase(order_, hash);
}

void BlobReceiver::start_over(Blob& blob) {
  in_flight_ -= static_cast<int>(blob.asked_ms.size());
  blob.asked_ms.clear();
  blob.asked = blob.bytes.size();
  blob.is_begun = false;
}

std::vector<wire::Want> BlobReceiver::ask(std::int64_t now_ms) {
  std::vector<wire::Want> questions;
  std::size_t active = 0;
  for (const std::string& hash : order_) {
    if (++active > kActiveMax) break;
    Blob& blob = blobs_.at(hash);
    if (!blob.asked_ms.empty() &&
        now_ms - blob.asked_ms.front() >= kPatienceMs) {
      start_over(blob);
      window_ = 1;
    }
    while (in_flight_ < window_) {
      // Before the first piece its size is not known, nor whether there is a
      // second.
      const bool more = blob.size > 0 ? blob.asked < blob.size : !blob.is_begun;
      if (!more) break;
      questions.push_back({hash, blob.asked});
      blob.asked += wire::kChunkBytes;
      blob.is_begun = true;
      blob.asked_ms.push_back(now_ms);
      ++in_flight_;
    }
  }
  return questions;
}

std::optional<std::int64_t> BlobReceiver::next_due_ms() const {
  std::optional<std::int64_t> due;
  for (const auto& [hash, blob] : blobs_) {
    if (blob.asked_ms.empty()) continue;
    const std::int64_t at = blob.asked_ms.front() + kPatienceMs;
    due = std::min(due.value_or(at), at);
  }
  return due;
}

Result<std::optional<std::string>> BlobReceiver::take(const wire::Chunk& chunk,
                                                      std::string_view bytes,
                                                      std::int64_t now_ms) {
  const auto found = blobs_.find(chunk.hash);
  if (found == blobs_.end()) return std::nullopt;
  Blob& blob = found->second;
  // An answer to what was given up, and asked for again.
  if (blob.asked_ms.empty() || chunk.offset != blob.bytes.size()) {
    return std::nullopt;
  }
  const std::uint64_t rest = chunk.size - chunk.offset;
  const bool fits =
      bytes.size() == std::min<std::uint64_t>(rest, wire::kChunkBytes) &&
      (blob.size == 0 || blob.size == chunk.size);
  if (!fits) {
    return fail(ErrorCode::damaged, "a piece of a blob has another size");
  }
  const std::int64_t took_ms = now_ms - blob.asked_ms.front();
  blob.asked_ms.pop_front();
  --in_flight_;
  if (took_ms < kQuickMs) window_ = std::min(window_ + 1, kWindowMax);
  if (took_ms > kSlowMs) window_ = std::max(window_ / 2, 1);
  blob.size = chunk.size;
  blob.bytes.append(bytes);
  if (blob.bytes.size() < blob.size) return std::nullopt;
  std::string whole = std::move(blob.bytes);
  forget(chunk.hash);
  if (content_hash(whole) != chunk.hash) {
    return fail(ErrorCode::damaged, "a blob is not what its hash says");
  }
  return whole;
}

void BlobReceiver::reconnected() {
  for (auto& [hash, blob] : blobs_) start_over(blob);
  window_ = 2;
}

}  // namespace weft
