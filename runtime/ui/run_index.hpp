// The runs that `weft ui` shows: those below a folder, each opened to read when
// it is asked for. Any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/debug/journal_reader.hpp"
#include "runtime/ui/run_counters.hpp"

namespace weft {

class RunIndex {
 public:
  static constexpr std::size_t kRunsMax = 1'000;  ///< the newest are shown
  static constexpr std::size_t kOpenMax = 16;     ///< journals at a time

  /// `location` is a run, or a folder that has some, up to three folders down.
  explicit RunIndex(std::filesystem::path root);

  struct Entry {
    std::string id;  ///< in addresses: 12 hex digits
    std::filesystem::path folder;
    std::filesystem::file_time_type changed;
    std::uint64_t journal = 0;  ///< its file's inode
  };
  /// What is there now, the newest first.
  std::vector<Entry> list() const;

  /// An open run, for one thread at a time.
  struct Run {
    Entry entry;
    Journal journal;
    JournalReader journal_reader;
    RunCounters run_counters;
    std::mutex mutex;
    Run(Entry entry, Journal opened);
  };

  /// Calls `use` with the run, its tally up to date. wrong_input: there is no
  /// such run; else why its journal cannot be read.
  Result<void> with(const std::string& id,
                    const std::function<void(Run&)>& use);

 private:
  Result<std::shared_ptr<Run>> open(const std::string& id);

  std::filesystem::path root_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Run>> open_;  ///< used last first
};

}  // namespace weft
