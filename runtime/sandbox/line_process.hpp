// A long-lived child process that is asked one line and answers one line. Its
// standard error goes to a log file. It is killed, with its process group, when
// it does not answer in time and when the object dies. The sandboxes that it
// started have ended, too, when the object is gone (after adopt_orphans()).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "messages/result.hpp"
#include "runtime/sandbox/bounded_log.hpp"

namespace weft {

struct LineCommand {
  std::vector<std::string> words;
  /// Added to, or replacing, this process's environment.
  std::vector<std::pair<std::string, std::string>> environment;
  /// Appended to, as far as a BoundedLog goes; empty: /dev/null.
  std::filesystem::path log;
};

class LineProcess {
 public:
  /// missing: the program could not be started.
  static Result<LineProcess> start(const LineCommand& command);

  LineProcess(LineProcess&& other) noexcept;
  LineProcess& operator=(LineProcess&&) = delete;
  ~LineProcess();

  /// Sends `line` (without its newline) and waits for one line back: no longer
  /// than `patience_ms` once that is not wanted any more. After a failure the
  /// process is gone.
  Result<std::string> ask(std::string_view line, std::int64_t wall_ms,
                          const std::stop_token& unwanted = {},
                          std::int64_t patience_ms = 0);

  /// Kills it: a waiting ask() fails at once. Any thread.
  void kill();

 private:
  LineProcess(pid_t pid, int to, int from, std::unique_ptr<BoundedLog> log)
      : pid_(pid), to_(to), from_(from), log_(std::move(log)) {}
  Result<void> send(std::string_view bytes, std::int64_t deadline_ms);
  Result<std::string> receive(std::int64_t deadline_ms,
                              const std::stop_token& unwanted,
                              std::int64_t patience_ms);

  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::unique_ptr<BoundedLog> log_;  // null: there is none
  std::string pending_;              // read, not yet handed out
};

}  // namespace weft
