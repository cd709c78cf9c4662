// What the pages ask for, as JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/ui/run_index.hpp"

namespace weft {

/// The list of runs, each looked into again only when its journal has changed.
/// Any thread.
class RunList {
 public:
  /// {"runs": [...], "more": how many are not looked into}.
  nlohmann::json answer(RunIndex& run_index);

 private:
  struct Known {
    std::filesystem::file_time_type changed;
    nlohmann::json about;
  };
  std::mutex mutex_;
  std::map<std::string, Known> known_;  ///< by id; those of the last answer
};

/// What is known of a run in a few words.
nlohmann::json run_answer(const RunIndex::Run& run);

/// What stands once event `at` is delivered: the event, what led to it and what
/// came of it, the roles, the requests without a reply, and the broker's state.
Result<nlohmann::json> moment_answer(RunIndex::Run& run, std::uint64_t at);

}  // namespace weft
