// Answers a peer's questions for pieces of blobs. What is being sent stays in
// memory, within a bound; the rest is loaded by whoever drives this, who must
// not block for it. Pure.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/bus/frame.hpp"

namespace weft {

class BlobSender {
 public:
  using Bytes = std::shared_ptr<const std::string>;
  /// Kept loaded; the one in hand may be larger.
  static constexpr std::size_t kLoadedBytesMax = std::size_t{256} << 20;
  /// Questions that may wait for a blob to be loaded.
  static constexpr std::size_t kWaitingMax = 100'000;

  /// What to send to whom.
  struct Answer {
    std::string peer;
    wire::Frame frame;
  };

  /// Answers at once where the blob is loaded. Else `load` becomes true if it
  /// has to be loaded now, and answers come with loaded().
  std::vector<Answer> asked(const std::string& peer, const wire::Want& want,
                            bool& load);

  /// The bytes of a blob that was to be loaded; null: there is none.
  std::vector<Answer> loaded(const std::string& hash, Bytes bytes);

  /// A copy at hand; null: not loaded.
  Bytes find(const std::string& hash) const;

 private:
  struct Loaded {
    Bytes bytes;
    std::list<std::string>::iterator position;
  };
  static wire::Frame piece(const wire::Want& want, const std::string& bytes);

  std::map<std::string, Loaded> loaded_;
  std::list<std::string> order_;  // used longest ago first
  std::size_t loaded_bytes_ = 0;
  std::map<std::string, std::vector<std::pair<std::string, wire::Want>>>
      waiting_;
  std::size_t waiting_count_ = 0;
};

}  // namespace weft
