// What is done with a run directory whose run has ended.
#pragma once

#include <filesystem>

#include "messages/result.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/store/run_directory.hpp"

namespace weft {

/// Where a run ended because its problem file was wrong, or died before its
/// first event, its journal goes: the next may have the same folder. Any other
/// folder stays as it is; wrong_input where a run would write over its files.
Result<void> make_free(const std::filesystem::path& folder);

/// Files that the run wrote and that are not there any more, such as a deleted
/// report, from the journal.
Result<void> write_missing_files(const Journal& journal,
                                 const RunDirectory& run);

}  // namespace weft
