// The processes that this process started, and those that they started in turn.
// A killed process leaves its children behind: they become children of this
// process, which can then wait for them. So nothing outlives weft, and a folder
// is removed only after its last user has ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace weft {

/// From now on, orphans among the descendants become children of this process.
/// Call it once, before anything is started. Does nothing if this process
/// already has children, as after `helper & exec weft`: they are not weft's,
/// and neither are the processes that they leave behind.
void adopt_orphans();

/// Starts a child with `spawn`, which is posix_spawn or posix_spawnp with its
/// arguments, and returns what that returns. The caller takes the exit status,
/// with wait_for_child. ECANCELED after end_descendants.
int start_child(pid_t& pid, const std::function<int(pid_t*)>& spawn);

/// Waits for that child and returns its status as waitpid(2) gives it; 0 if
/// end_descendants has taken it.
int wait_for_child(pid_t pid);

/// After the child `group` was killed with its process group and waited for:
/// waits until that group has ended and no orphaned sandbox is left, but no
/// longer than some seconds: end_descendants says what never ends. Any thread.
/// Without adopt_orphans there is nothing to wait for.
void await_orphans(pid_t group);

/// Ends all descendants and returns when none is left: SIGTERM, and SIGKILL
/// after `grace_ms`. Nothing can be started afterwards. The answer is empty, or
/// says which processes were still there after `wall_ms`. Any thread.
std::string end_descendants(std::int64_t grace_ms, std::int64_t wall_ms);

}  // namespace weft
