// The one thread through which every envelope of a run passes: it numbers,
// journals and then delivers, in groups, so that nothing is delivered before it
// is durable and the order is total. post() may be called from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "messages/envelope.hpp"
#include "runtime/host/effect_ledger.hpp"
#include "runtime/journal/blob_store.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {

/// What one commit brought. Shared as a whole: an allocation for each envelope
/// would cost the spine's thread more than numbering it does.
using SharedGroup = std::shared_ptr<const std::vector<Envelope>>;

class Spine {
 public:
  struct Callbacks {
    /// After each commit, on the spine's thread, in the journal's order.
    std::function<void(const SharedGroup&)> deliver;
    /// The journal cannot be written: the run must stop. Called once.
    std::function<void(const Error&)> fatal;
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
  void await_post() const;
  bool pass_on(std::vector<Envelope> group, bool wanted);
  bool commit(std::vector<Envelope>& group);

  Journal& journal_;
  BlobStore& blobs_;
  Callbacks callbacks_;
  EffectLedger ledger_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Envelope> posted_;
  bool stopping_ = false;
  std::atomic<bool> has_work_ = false;  ///< posted or stopping: ends a spin
  std::thread thread_;
};

}  // namespace weft
