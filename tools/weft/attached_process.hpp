// A command that lives no longer than whoever holds the other end of this
// process's standard input, and leaves no process behind however it ends.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "messages/result.hpp"

namespace weft {

struct Attached {
  std::vector<std::string> words;  ///< the command and its arguments
  /// Removed when standard input was closed: whoever would have read what lies
  /// there is gone. Empty: nothing is removed.
  std::filesystem::path removed;
  /// Added to the command's niceness. This process keeps its own: it is to act
  /// at once on a machine that others keep busy.
  int niceness = 0;
};

/// Runs the command until it ends, standard input is closed, or this process
/// gets SIGINT, SIGTERM or SIGHUP. Then all its descendants are killed, also
/// those that became daemons. Call it before any thread is made.
///
/// Returns the command's exit code (128 + n for a command that signal n ended);
/// 130 when it was stopped. `missing`: it could not be started.
Result<int> run_attached(const Attached& attached);

}  // namespace weft
