#include "tools/weft/finished_run.hpp"

#include <map>
#include <string>
#include <system_error>

#include "messages/vocabulary.hpp"
#include "runtime/journal/journal_files.hpp"
#include "runtime/machine/files.hpp"

namespace weft {

namespace fs = std::filesystem;

Result<void> free_of_wrong_input(const fs::path& folder) {
  constexpr int wrong_input = 2;
  const fs::path file = folder / "journal.db";
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  bool is_wrong = false;
  {
    // What cannot be read is no such run, and whoever opens it says why.
    const auto journal = Journal::open_read_only(file);
    if (!journal) return {};
    (void)journal->read(1, [&](const Envelope& envelope) {
      const auto message = decode(envelope.type, envelope.body);
      const auto* end = message ? std::get_if<RunFinished>(&*message) : nullptr;
      is_wrong = is_wrong || (end && end->exit_code == wrong_input);
      return true;
    });
  }
  return is_wrong ? remove_journal(file) : Result<void>();
}

Result<void> write_missing_files(const Journal& journal,
                                 const RunDirectory& run) {
  std::map<std::string, std::string> blobs;  // by path: the last is what counts
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    const auto message = decode(envelope.type, envelope.body);
    if (!message) return true;
    if (const auto* write = std::get_if<WriteFilesRequest>(&*message)) {
      for (const FileToWrite& one : write->files) blobs[one.path] = one.blob;
    }
    return true;
  });
  if (!read) return read;
  for (const auto& [path, blob] : blobs) {
    std::error_code ignored;
    if (fs::exists(run.folder() / path, ignored)) continue;
    const auto bytes = journal.get_blob(blob);
    if (!bytes) return std::unexpected(bytes.error());
    const auto written = write_file_whole(run.folder() / path, *bytes);
    if (!written) return written;
  }
  return {};
}

}  // namespace weft
