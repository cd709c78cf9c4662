// A box that stands: the command in it, and what the launcher holds of it.
#pragma once

#include <sys/types.h>

#include <string>

#include "messages/result.hpp"
#include "runtime/sandbox/order.hpp"

namespace weft {

struct Box {
  pid_t pid = -1;     ///< our child; it ends when the command does
  int pid_fd = -1;    ///< readable when it has ended
  int ready_fd = -1;  ///< see inside.hpp
  int info_fd = -1;   ///< bubblewrap's note on the box's first process
  int error_fd = -1;  ///< bubblewrap's stderr
};

/// missing: bubblewrap is not installed.
Result<Box> build_box(const SandboxOrder& order);

/// The command as a process of ours that sees all that we see, where weft was
/// told
/// `--sandbox none`: it has limits, and all that it starts ends with it.
Result<Box> build_no_box(const SandboxOrder& order);

/// Kills all that lives in the box and returns when it is gone, which is when
/// the last of our children is: those who lose their parent become ours.
void end_box(const Box& box);

/// The process id, outside, of the box's process 1. Ask once ready_fd spoke.
pid_t first_process(const Box& box);

/// All that can be read from a pipe now.
std::string read_pipe(int fd);

}  // namespace weft
