#include "runtime/host/spine.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace weft {
namespace {

/// Bounds one commit; what is more waits for the next.
constexpr std::size_t kGroupMax = 4096;
using Clock = std::chrono::steady_clock;

/// The answer to what was just delivered is awaited this long before the thread
/// sleeps: to wake it costs 20 to 50 us, and a full commit about 150.
constexpr std::chrono::microseconds kSpinMax{100};
/// But where a commit brought more than this, many are at work: asleep, the
/// thread lets what they say gather, and one commit does for all of it.
constexpr std::size_t kFew = 8;
std::int64_t now_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Spine::Spine(Journal& journal, BlobStore& blobs, std::set<std::uint64_t> open,
             Callbacks callbacks)
    : journal_(journal),
      blobs_(blobs),
      callbacks_(std::move(callbacks)),
      ledger_(std::move(open)),
      thread_([this] { loop(); }) {}

Spine::~Spine() { stop(); }

void Spine::post(std::vector<Envelope> batch) {
  bool asleep = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    asleep = posted_.empty();  // else somebody has woken the spine already
    std::ranges::move(batch, std::back_inserter(posted_));
    has_work_ = true;
  }
  if (asleep) wake_.notify_one();
}

void Spine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    has_work_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Spine::loop() {
  std::size_t usual = 0;
  while (true) {
    bool wanted = true;
    std::vector<Envelope> posted;
    posted.reserve(usual);
    if (usual <= kFew) await_post();
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !posted_.empty(); });
      if (posted_.empty()) return;
      std::swap(posted, posted_);
      wanted = !stopping_;
      has_work_ = stopping_;
    }
    usual = std::min(posted.size(), kGroupMax);
    while (posted.size() > kGroupMax) {
      const auto end = posted.begin() + kGroupMax;
      std::vector<Envelope> group(std::make_move_iterator(posted.begin()),
                                  std::make_move_iterator(end));
      posted.erase(posted.begin(), end);
      if (!pass_on(std::move(group), wanted)) return;
    }
    if (!pass_on(std::move(posted), wanted)) return;
  }
}

/// Spins for what the commit before leads to. Yields its core at each turn: on
/// a busy machine it is those who shall post that want it.
void Spine::await_post() const {
  const auto end = Clock::now() + kSpinMax;
  while (!has_work_ && Clock::now() < end) std::this_thread::yield();
}

/// False when the group could not be journaled.
bool Spine::pass_on(std::vector<Envelope> group, bool wanted) {
  if (!commit(group)) return false;
  if (wanted) {
    callbacks_.deliver(
        std::make_shared<const std::vector<Envelope>>(std::move(group)));
  }
  return true;
}

bool Spine::commit(std::vector<Envelope>& group) {
  const std::lock_guard lock(blobs_.journal_mutex());
  std::uint64_t seq = journal_.last_seq();
  const std::int64_t at_us = now_us();
  for (Envelope& envelope : group) {
    envelope.seq = ++seq;
    envelope.at_us = at_us;
    ledger_.settle(envelope);
  }
  Result<void> done = blobs_.flush();
  if (done) done = journal_.append(group);
  if (!done) callbacks_.fatal(done.error());
  return done.has_value();
}

}  // namespace weft
