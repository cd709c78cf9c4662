// The command line of the launcher `weft-sandbox`: which command to run in
// which box. runtime/sandbox/sandbox.cpp writes it, the launcher reads it, and
// passes a shorter one on to its own second half inside the box.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "runtime/sandbox/sandbox.hpp"

namespace weft {

struct SandboxOrder {
  /// Which part of the launcher's work is wanted.
  enum class Step {
    supervise,  ///< make the box, watch over it, take it away
    inside,     ///< already in the box: give up the last rights, then exec
    self_test,  ///< already in the box: try what must not work
  };
  Step step = Step::supervise;
  bool is_boxed = true;  ///< false: limits alone, nothing is hidden
  SandboxRequest request;
  int status_fd = -1;     ///< where to tell how it ended; -1: exit code only
  std::int64_t uid = -1;  ///< to become, inside; -1: stay who we are
};

/// The words after the program's name.
std::vector<std::string> words_of(const SandboxOrder& order);

/// wrong_input for words that words_of() does not write.
Result<SandboxOrder> read_order(std::span<char* const> words);

}  // namespace weft
