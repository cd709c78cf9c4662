// Asks a peer for blobs piece by piece and puts them together. The receiver
// sets the pace, so that pieces never pile up before control messages; after a
// break it goes on where it was. Pure: time is a number that the caller gives.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bus/frame.hpp"

namespace weft {

class BlobReceiver {
 public:
  /// A piece that has not come for so long is asked for again.
  static constexpr std::int64_t kPatienceMs = 10'000;
  static constexpr int kWindowMax = 32;
  /// Blobs that are put together at a time.
  static constexpr std::size_t kActiveMax = 8;
  /// Blobs that may wait for their turn.
  static constexpr std::size_t kWaitingMax = 65'536;

  /// Asking twice is asking once. size: what the peer says; 0: it is not known.
  /// False: too many wait already.
  bool want(const std::string& hash, std::uint64_t size = 0);
  bool wants(const std::string& hash) const { return blobs_.contains(hash); }
  void forget(const std::string& hash);

  /// The questions that may be asked now.
  std::vector<wire::Want> ask(std::int64_t now_ms);
  std::optional<std::int64_t> next_due_ms() const;

  /// A piece came in; the blob, if that was its last. What was not asked for
  /// is ignored. damaged: the peer sends what is not the blob.
  Result<std::optional<std::string>> take(const wire::Chunk& chunk,
                                          std::string_view bytes,
                                          std::int64_t now_ms);

  /// The connection is another one: what was asked will not be answered.
  void reconnected();

  bool idle() const { return blobs_.empty(); }

 private:
  struct Blob {
    std::string bytes;
    std::uint64_t size = 0;             // 0: not known yet
    std::uint64_t asked = 0;            // up to here
    bool is_begun = false;              // its first piece was asked for
    std::deque<std::int64_t> asked_ms;  // of the pieces under way
  };
  void start_over(Blob& blob);

  std::map<std::string, Blob> blobs_;
  std::deque<std::string> order_;  // first asked, first served
  int window_ = 2;
  int in_flight_ = 0;
};

}  // namespace weft
