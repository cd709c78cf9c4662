// The files that a journal is: SQLite's own, what it writes ahead, and the
// lock.
#pragma once

#include <filesystem>
#include <vector>

#include "messages/result.hpp"

namespace weft {

/// "journal.db-wal": what is committed and not yet in the journal itself.
std::filesystem::path write_ahead_log_of(const std::filesystem::path& journal);

/// The journal last: while it is there, the others mean something.
std::vector<std::filesystem::path> journal_files(
    const std::filesystem::path& journal);

/// All of them, those that are there. missing: one cannot be removed.
Result<void> remove_journal(const std::filesystem::path& journal);

}  // namespace weft
