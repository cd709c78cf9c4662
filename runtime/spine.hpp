// The one thread through which every envelope of a run passes: it numbers,
// journals and then delivers, in groups, so that nothing is delivered before it
// is durable and the order is total. post() may be called from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "messages/envelope.hpp"
#include "runtime/blob_store.hpp"
#include "runtime/effect_ledger.hpp"
#include "runtime/journal.hpp"

namespace weft {

using SharedEnvelope = std::shared_ptr<const Envelope>;

class Spine {
 public:
  struct Callbacks {
    /// On the spine's thread, in the journal's order.
    std::function<void(const SharedEnvelope&)> deliver;
    /// The journal cannot be written: the run must stop. Called once.
    std::function<void(const Error&)> fatal;
    /// After the last envelope of each commit, on the spine's thread: whoever
    /// gathers what deliver() gave hands it on now. May be empty.
    std::function<void()> delivered = {};
  };

  /// `open` are the requests of an earlier process that have no reply yet.
  Spine(Journal& journal, BlobStore& blobs, std::set<std::uint64_t> open,
        Callbacks callbacks);
  ~Spine();

  /// Takes envelopes without seq and time; they stay together and in order.
  void post(std::vector<Envelope> batch);

  /// Journals what was posted before the call, then stops delivering.
  void stop();

 private:
  void loop();
  void deliver(std::vector<Envelope>& group);
  bool commit(std::vector<Envelope>& group);

  Journal& journal_;
  BlobStore& blobs_;
  Callbacks callbacks_;
  EffectLedger ledger_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Envelope> posted_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weft
