// A verb whose work is the Python side's: this process becomes it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "messages/result.hpp"
#include "runtime/machine/installation.hpp"

namespace weft {

/// Goes on as main(settings) of that module, so that signals and the exit code
/// need no relay. Returns only when Python cannot be started, and says why.
Error become_python(const Installation& installation, const std::string& module,
                    const nlohmann::json& settings);

}  // namespace weft
