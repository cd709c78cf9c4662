// Decodes an oracle's replies (docs/reference/worker-protocol.md) into
// messages.
#pragma once

#include <nlohmann/json.hpp>

#include "messages/effects.hpp"

namespace weft {

/// Of a reply's `verdict`.
Verdict verdict_from(const nlohmann::json& fields);

/// Of its `timing`, but for `rejected`.
Timing timing_from(const nlohmann::json& fields);

}  // namespace weft
