#include "runtime/bus/node_blobs.hpp"

#include <chrono>
#include <system_error>

#include "runtime/machine/files.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {

namespace fs = std::filesystem;

namespace {

/// What is lost so often between the wire and its reader is a disk's matter.
constexpr int kAsksMax = 100;

}  // namespace

NodeBlobs::NodeBlobs(Options options) : options_(std::move(options)) {
  // What an earlier process left may be half a file: it begins anew.
  std::error_code ignored;
  fs::remove_all(options_.folder, ignored);
  fs::create_directories(options_.folder, ignored);
}

void NodeBlobs::set_fetch(std::function<void(const std::string&)> fetch) {
  const std::lock_guard lock(mutex_);
  fetch_ = std::move(fetch);
}

fs::path NodeBlobs::file_of(const std::string& hash) const {
  return options_.folder / hash;
}

Result<std::string> NodeBlobs::get(std::string_view name) {
  const std::string hash(name);
  {
    const std::lock_guard lock(mutex_);
    ++awaited_[hash].callers;
  }
  auto bytes = await(hash);
  const std::lock_guard lock(mutex_);
  if (--awaited_[hash].callers == 0) awaited_.erase(hash);
  return bytes;
}

Result<std::string> NodeBlobs::await(const std::string& hash) {
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::milliseconds(options_.wait_ms);
  for (int asked = 0; asked < kAsksMax; ++asked) {
    if (const auto bytes = find(hash)) return *bytes;
    std::function<void(const std::string&)> fetch;
    int before = 0;
    {
      const std::lock_guard lock(mutex_);
      const Awaited& awaited = awaited_.at(hash);
      before = awaited.came;
      if (is_over_) return fail(ErrorCode::failed, "the run has ended");
      if (awaited.in_hand) return *awaited.in_hand;
      if (absent_.erase(hash) > 0 && asked > 0) {
        return fail(ErrorCode::failed, "the head has no blob " + hash);
      }
      fetch = fetch_;
    }
    if (!fetch) return fail(ErrorCode::failed, "no blob " + hash + " here");
    fetch(hash);
    std::unique_lock lock(mutex_);
    // Lost on its way into the folder, it is asked for again.
    const bool came = arrived_.wait_until(lock, deadline, [&] {
      return is_over_ || stored_.contains(hash) || absent_.contains(hash) ||
             awaited_.at(hash).came != before;
    });
    if (!came) {
      return fail(ErrorCode::failed, "the head did not send blob " + hash);
    }
  }
  return fail(ErrorCode::failed, "blob " + hash + " came " +
                                     std::to_string(kAsksMax) +
                                     " times and was lost each time");
}

std::string NodeBlobs::put(std::string_view bytes) {
  std::string hash = content_hash(bytes);
  const std::lock_guard lock(mutex_);
  own_.insert(hash);
  if (stored_.contains(hash)) return hash;
  if (!keep(hash, bytes)) not_taken_[hash] = bytes;
  return hash;
}

/// What the head has and cannot be written (a full disk) is as good as lost,
/// and asked for again when it is needed.
Result<void> NodeBlobs::keep(const std::string& hash, std::string_view bytes) {
  if (const auto done = write_file_whole(file_of(hash), bytes); !done) {
    return done;
  }
  not_taken_.erase(hash);
  Stored& stored = stored_[hash];
  stored.size = bytes.size();
  stored.position = order_.insert(order_.end(), hash);
  bytes_ += bytes.size();
  free_space();
  return {};
}

void NodeBlobs::drop(const std::string& hash) {
  const auto found = stored_.find(hash);
  if (found == stored_.end()) return;
  bytes_ -= found->second.size;
  order_.erase(found->second.position);
  stored_.erase(found);
  std::error_code ignored;
  fs::remove(file_of(hash), ignored);
}

void NodeBlobs::free_space() {
  for (auto next = order_.begin();
       bytes_ > options_.bytes_max && next != order_.end();) {
    const std::string hash = *next++;
    const bool is_last = next == order_.end();
    // An answer that is not settled needs what it refers to.
    if (is_last || own_.contains(hash)) continue;
    drop(hash);
  }
}

void NodeBlobs::deliver(const std::string& hash,
                        const std::shared_ptr<const std::string>& bytes) {
  const std::lock_guard lock(mutex_);
  ++delivered_;
  const auto awaited = awaited_.find(hash);
  if (awaited != awaited_.end()) ++awaited->second.came;
  if (!bytes) {
    absent_.insert(hash);
  } else {
    const bool is_lost =
        options_.lose_every > 0 && delivered_ % options_.lose_every == 0;
    const bool is_kept =
        is_lost || stored_.contains(hash) || keep(hash, *bytes).has_value();
    if (!is_kept && awaited != awaited_.end()) awaited->second.in_hand = bytes;
  }
  arrived_.notify_all();
}

std::shared_ptr<const std::string> NodeBlobs::find(const std::string& hash) {
  const std::lock_guard lock(mutex_);
  const auto found = stored_.find(hash);
  if (found == stored_.end()) return nullptr;
  auto bytes = read_file(file_of(hash));
  if (!bytes || content_hash(*bytes) != hash) {
    drop(hash);
    return nullptr;
  }
  order_.splice(order_.end(), order_, found->second.position);
  return std::make_shared<const std::string>(std::move(*bytes));
}

Result<std::vector<wire::BlobRef>> NodeBlobs::pin(std::uint64_t id,
                                                  std::string_view body) {
  std::vector<wire::BlobRef> blob_refs;
  const std::vector<std::string> hashes = wire::hashes_in(body);
  const std::lock_guard lock(mutex_);
  for (const std::string& hash : hashes) {
    const auto lacking = not_taken_.find(hash);
    if (lacking == not_taken_.end()) continue;
    const std::string bytes = lacking->second;  // keep() forgets it
    if (const auto done = keep(hash, bytes); !done) {
      return std::unexpected(done.error());
    }
  }
  for (const std::string& hash : hashes) {
    const auto found = stored_.find(hash);
    if (found == stored_.end() || !own_.contains(hash)) continue;
    if (blob_refs.size() == wire::kBlobsOfMessageMax) break;
    ++found->second.pins;
    pinned_[id].push_back(hash);
    blob_refs.push_back({hash, found->second.size});
  }
  return blob_refs;
}

void NodeBlobs::settled(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  auto hashes = pinned_.extract(id);
  if (hashes.empty()) return;
  for (const std::string& hash : hashes.mapped()) {
    const auto found = stored_.find(hash);
    if (found != stored_.end() && --found->second.pins == 0) own_.erase(hash);
  }
  free_space();
}

void NodeBlobs::begin_run() {
  const std::lock_guard lock(mutex_);
  is_over_ = false;
  absent_.clear();
}

void NodeBlobs::end_run() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  pinned_.clear();
  own_.clear();
  not_taken_.clear();
  for (auto& [hash, stored] : stored_) stored.pins = 0;
  free_space();
  arrived_.notify_all();
}

}  // namespace weft
