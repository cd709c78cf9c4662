#include "runtime/journal/blob_store.hpp"

#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

constexpr std::size_t kMemoryBytesMax = std::size_t{256} << 20;

}  // namespace

Result<std::string> BlobStore::get(std::string_view hash) {
  {
    const std::lock_guard lock(mutex_);
    const std::string key(hash);
    if (const auto i = unflushed_.find(key); i != unflushed_.end()) {
      return i->second;
    }
    if (const auto i = memory_.find(key); i != memory_.end()) return i->second;
  }
  Result<std::string> bytes = [&] {
    const std::lock_guard lock(journal_mutex_);
    return journal_.get_blob(hash);
  }();
  if (bytes) {
    const std::lock_guard lock(mutex_);
    remember(std::string(hash), *bytes);
  }
  return bytes;
}

std::string BlobStore::put(std::string_view bytes) {
  std::string hash = content_hash(bytes);
  const std::lock_guard lock(mutex_);
  if (!memory_.contains(hash)) unflushed_.try_emplace(hash, bytes);
  return hash;
}

Result<void> BlobStore::flush() {
  std::unordered_map<std::string, std::string> batch;
  {
    const std::lock_guard lock(mutex_);
    batch = unflushed_;
  }
  for (const auto& [hash, bytes] : batch) {
    if (const auto done = journal_.put_blob(bytes); !done) {
      return std::unexpected(done.error());
    }
  }
  const std::lock_guard lock(mutex_);
  for (auto& [hash, bytes] : batch) {
    unflushed_.erase(hash);
    remember(hash, std::move(bytes));
  }
  return {};
}

void BlobStore::remember(const std::string& hash, std::string bytes) {
  const std::size_t size = bytes.size();
  if (!memory_.emplace(hash, std::move(bytes)).second) return;
  order_.push_back(hash);
  memory_bytes_ += size;
  while (memory_bytes_ > kMemoryBytesMax && order_.size() > 1) {
    const auto oldest = memory_.find(order_.front());
    memory_bytes_ -= oldest->second.size();
    memory_.erase(oldest);
    order_.pop_front();
  }
}

}  // namespace weft
