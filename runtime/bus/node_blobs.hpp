// A node's blobs: a folder of files named by hash, bounded. What is not there
// is asked of the head, and the asker waits. Bytes are held against their hash
// each time they are read. What this node made stays until its effect is
// settled. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/role.hpp"
#include "runtime/bus/frame.hpp"

namespace weft {

class NodeBlobs : public Blobs {
 public:
  struct Options {
    std::filesystem::path folder;
    std::uint64_t bytes_max = std::uint64_t{2} << 30;
    /// Every so many blobs that come are lost at once: for tests. 0: none.
    int lose_every = 0;
    std::int64_t wait_ms = 600'000;  ///< for one blob of the head's
  };
  explicit NodeBlobs(Options options);

  /// Asks the head for a blob; any thread.
  void set_fetch(std::function<void(const std::string&)> fetch);

  Result<std::string> get(std::string_view hash) override;
  std::string put(std::string_view bytes) override;

  /// From the head; null: it has none.
  void deliver(const std::string& hash,
               const std::shared_ptr<const std::string>& bytes);
  /// What is here, without asking the head.
  std::shared_ptr<const std::string> find(const std::string& hash);

  /// Those that a reply refers to and that were made here: kept until
  /// settled(id). The error is the disk's that does not take one of them: then
  /// none is pinned, and it may be tried again once there is room.
  Result<std::vector<wire::BlobRef>> pin(std::uint64_t id,
                                         std::string_view body);
  void settled(std::uint64_t id);

  /// Nobody waits any more, and nothing is kept: the run has ended.
  void end_run();
  void begin_run();

 private:
  struct Stored {
    std::uint64_t size = 0;
    int pins = 0;
    std::list<std::string>::iterator position;
  };
  /// A blob that somebody waits for.
  struct Awaited {
    int callers = 0;
    int came = 0;  ///< so often
    /// Where the folder did not take it: a full disk ends no work.
    std::shared_ptr<const std::string> in_hand;
  };
  Result<std::string> await(const std::string& hash);
  std::filesystem::path file_of(const std::string& hash) const;
  Result<void> keep(const std::string& hash, std::string_view bytes);
  void drop(const std::string& hash);
  void free_space();

  Options options_;
  std::function<void(const std::string&)> fetch_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::string, Stored> stored_;
  std::list<std::string> order_;  // used longest ago first
  std::uint64_t bytes_ = 0;
  std::set<std::string> absent_;  // the head has none
  std::map<std::string, Awaited> awaited_;
  std::map<std::uint64_t, std::vector<std::string>> pinned_;  // by effect
  std::set<std::string> own_;
  std::map<std::string, std::string> not_taken_;  // own ones' bytes
  int delivered_ = 0;
  bool is_over_ = false;
};

}  // namespace weft
