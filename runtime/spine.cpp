#include "runtime/spine.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace weft {
namespace {

/// Bounds one commit; what is more waits for the next.
constexpr std::size_t group_max = 4096;

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
  }
  if (asleep) wake_.notify_one();
}

void Spine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Spine::loop() {
  std::vector<Envelope> group;
  std::vector<Envelope> backlog;
  while (true) {
    bool wanted = true;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !posted_.empty(); });
      if (posted_.empty()) return;
      std::swap(backlog, posted_);
      wanted = !stopping_;
    }
    for (std::size_t from = 0; from < backlog.size(); from += group_max) {
      const auto end = std::min(backlog.size(), from + group_max);
      group.assign(std::make_move_iterator(backlog.begin() + from),
                   std::make_move_iterator(backlog.begin() + end));
      if (!commit(group)) return;
      if (wanted) deliver(group);
    }
    backlog.clear();
  }
}

void Spine::deliver(std::vector<Envelope>& group) {
  for (Envelope& envelope : group) {
    callbacks_.deliver(std::make_shared<const Envelope>(std::move(envelope)));
  }
  if (callbacks_.delivered) callbacks_.delivered();
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
