// The settings of a machine or a container to change if it forbids namespaces.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// By what is seen of a container and of the kernel's settings: lines for a
/// person.
std::vector<std::string> sandbox_advice();

}  // namespace weft
