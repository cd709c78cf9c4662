// A run of a problem of a few numbers, from capture to verdict: the test by
// which `weft doctor` calls a machine ready.
#pragma once

#include <string>

#include "runtime/machine/installation.hpp"

namespace weft {

/// The run's last line. Takes PyTorch's start a few times, about half a minute.
/// An error has the run's own message.
Result<std::string> run_tiny_problem(const Installation& installation);

}  // namespace weft
