// Which file of --config a run was begun with, for its resume. The user's own
// cache folder says so, not the run: a run directory may come from somebody
// else, and settings say where keys go.
#pragma once

#include <filesystem>
#include <optional>

#include "runtime/journal/journal.hpp"

namespace weft {

/// Remembers it for the run of that new journal, if a file was named. Where it
/// cannot be kept, a resume needs --config again: no reason to stop.
void remember_settings(Journal& journal,
                       const std::optional<std::filesystem::path>& named);

/// The remembered file of that run on this machine, if it still exists.
std::optional<std::filesystem::path> remembered_settings(
    const Journal& journal);

}  // namespace weft
