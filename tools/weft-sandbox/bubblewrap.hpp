// The box as bubblewrap is asked to build it: which folders are seen, which
// namespaces are new.
#pragma once

#include <string>
#include <vector>

#include "runtime/sandbox/order.hpp"

namespace weft {

/// Where the launcher lies in the box.
constexpr const char* kLauncherInside = "/.weft-sandbox";

/// The whole command line, from `bwrap` on. bubblewrap tells the process id of
/// the box's first process on `info_fd`.
std::vector<std::string> bubblewrap_words(const SandboxOrder& order,
                                          int info_fd);

}  // namespace weft
