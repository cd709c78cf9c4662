#include "runtime/bus/blob_sender.hpp"

#include <algorithm>

namespace weft {

wire::Frame BlobSender::piece(const wire::Want& want,
                              const std::string& bytes) {
  // Beyond the end: an empty piece, which tells the size.
  const std::size_t offset = std::min<std::size_t>(want.offset, bytes.size());
  return {wire::encode_header(wire::Chunk{want.hash, offset, bytes.size()}),
          std::make_shared<const std::string>(
              bytes.substr(offset, wire::kChunkBytes))};
}

std::vector<BlobSender::Answer> BlobSender::asked(const std::string& peer,
                                                  const wire::Want& want,
                                                  bool& load) {
  load = false;
  const auto found = loaded_.find(want.hash);
  if (found != loaded_.end()) {
    order_.splice(order_.end(), order_, found->second.position);
    return {{peer, piece(want, *found->second.bytes)}};
  }
  // Not answered: it is asked again.
  if (waiting_count_ >= kWaitingMax) return {};
  ++waiting_count_;
  auto& waiting = waiting_[want.hash];
  load = waiting.empty();
  waiting.emplace_back(peer, want);
  return {};
}

std::vector<BlobSender::Answer> BlobSender::loaded(const std::string& hash,
                                                   Bytes bytes) {
  std::vector<Answer> answers;
  auto waiting = waiting_.extract(hash);
  if (!waiting.empty()) {
    waiting_count_ -= waiting.mapped().size();
    for (const auto& [peer, want] : waiting.mapped()) {
      if (bytes) {
        answers.push_back({peer, piece(want, *bytes)});
      } else {
        answers.push_back({peer, {encode_header(wire::Lack{hash}), nullptr}});
      }
    }
  }
  if (!bytes || loaded_.contains(hash)) return answers;
  loaded_bytes_ += bytes->size();
  loaded_[hash] = {std::move(bytes), order_.insert(order_.end(), hash)};
  while (loaded_bytes_ > kLoadedBytesMax && order_.size() > 1) {
    const auto oldest = loaded_.find(order_.front());
    loaded_bytes_ -= oldest->second.bytes->size();
    loaded_.erase(oldest);
    order_.pop_front();
  }
  return answers;
}

BlobSender::Bytes BlobSender::find(const std::string& hash) const {
  const auto found = loaded_.find(hash);
  return found == loaded_.end() ? nullptr : found->second.bytes;
}

}  // namespace weft
