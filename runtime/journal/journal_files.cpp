#include "runtime/journal/journal_files.hpp"

#include <system_error>

#include "runtime/journal/lock.hpp"

namespace weft {

namespace fs = std::filesystem;

fs::path write_ahead_log_of(const fs::path& journal) {
  return journal.string() + "-wal";
}

std::vector<fs::path> journal_files(const fs::path& journal) {
  return {write_ahead_log_of(journal), journal.string() + "-shm",
          JournalLock::path_of(journal), journal};
}

Result<void> remove_journal(const fs::path& journal) {
  for (const fs::path& file : journal_files(journal)) {
    std::error_code error;
    fs::remove(file, error);
    if (error) {
      return fail(ErrorCode::missing,
                  "cannot remove " + file.string() + ": " + error.message());
    }
  }
  return {};
}

}  // namespace weft
