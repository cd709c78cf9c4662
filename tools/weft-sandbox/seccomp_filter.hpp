// The system calls that nothing in the sandbox may make. A list of what is
// denied, not of what is allowed: compilers, Python and torch use hundreds of
// calls that change with every release, and the namespaces are the wall; this
// closes the doors through which kernels have been broken out of.
#pragma once

#include "messages/result.hpp"

namespace weft {

/// Holds for this process and all that it starts, for ever.
Result<void> load_seccomp_filter(bool gpu);

}  // namespace weft
