// Prints what the oracle found of one candidate, for a person or as JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/weft/commands.hpp"

namespace weft {

/// `evaluation` is docs/reference/worker-protocol.md's. With --json, one object
/// a line; with --quiet, only what is rejected.
void show_evaluation(const CommonFlags& common,
                     const std::filesystem::path& reference,
                     const std::filesystem::path& candidate,
                     const nlohmann::json& evaluation);

}  // namespace weft
