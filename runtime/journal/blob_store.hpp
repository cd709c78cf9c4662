// The journal's blobs for many threads: roles and ports read and put, the spine
// flushes. What this process put stays in memory (bounded), so a reader rarely
// waits for a commit. Thread-safe.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/role.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {

class BlobStore : public Blobs {
 public:
  /// `journal` outlives the store; every use of it holds journal_mutex().
  explicit BlobStore(Journal& journal) : journal_(journal) {}

  Result<std::string> get(std::string_view hash) override;
  std::string put(std::string_view bytes) override;

  /// Moves what was put into the journal, to be durable with the next append.
  /// The caller holds journal_mutex().
  Result<void> flush();

  std::mutex& journal_mutex() { return journal_mutex_; }

 private:
  void remember(const std::string& hash, std::string bytes);

  Journal& journal_;
  std::mutex journal_mutex_;
  std::mutex mutex_;  // guards what follows; may be taken inside the other
  std::unordered_map<std::string, std::string> memory_;
  std::list<std::string> order_;  // oldest first
  std::size_t memory_bytes_ = 0;
  std::unordered_map<std::string, std::string> unflushed_;
};

}  // namespace weft
