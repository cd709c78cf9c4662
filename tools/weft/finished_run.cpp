#include "tools/weft/finished_run.hpp"

#include <map>
#include <string>
#include <system_error>

#include "messages/untrusted.hpp"
#include "messages/vocabulary.hpp"
#include "runtime/journal/journal_files.hpp"
#include "runtime/store/untrusted_files.hpp"

namespace weft {

namespace fs = std::filesystem;

namespace {

/// Nobody's files are written over: a folder without a run has none that a run
/// would write.
Result<void> check_own_files(const fs::path& folder) {
  for (const char* name : {"composed", "kernels", "report.md", "report.html",
                           "results.csv", "result.json", "subgraphs.json"}) {
    std::error_code error;
    if (!fs::exists(folder / name, error)) continue;
    return fail(ErrorCode::wrong_input,
                folder.string() + " holds no run, but a " + name +
                    " that a run would write over: choose another --out");
  }
  return {};
}

}  // namespace

Result<void> make_free(const fs::path& folder) {
  constexpr int wrong_input = 2;
  const fs::path file = folder / "journal.db";
  std::error_code error;
  if (!fs::exists(file, error)) return check_own_files(folder);
  bool is_wrong = false;
  bool has_events = false;
  {
    // What cannot be read is no such run, and whoever opens it says why.
    const auto journal = Journal::open_read_only(file);
    if (!journal) return {};
    const auto read = journal->read(1, [&](const Envelope& envelope) {
      has_events = true;
      const auto message = decode(envelope.type, envelope.body);
      const auto* end = message ? std::get_if<RunFinished>(&*message) : nullptr;
      is_wrong = is_wrong || (end && end->exit_code == wrong_input);
      return true;
    });
    if (!read) return {};
  }
  if (is_wrong) return remove_journal(file);
  // Its run died before it began (a full disk, say), or begins just now.
  const bool is_dead =
      !has_events && Journal::open(file, Sync::normal).has_value();
  return is_dead ? remove_journal(file) : Result<void>();
}

Result<void> write_missing_files(const Journal& journal,
                                 const RunDirectory& run) {
  std::map<std::string, std::string> blobs;  // by path: the last is what counts
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    const auto message = decode(envelope.type, envelope.body);
    if (!message) return true;
    if (const auto* write = std::get_if<WriteFilesRequest>(&*message)) {
      for (const FileToWrite& file : write->files) blobs[file.path] = file.blob;
    }
    return true;
  });
  if (!read) return read;
  for (const auto& [path, blob] : blobs) {
    // A journal may be a stranger's.
    if (const auto inside = check_path_inside(path); !inside) return inside;
    std::error_code ignored;
    if (fs::exists(fs::symlink_status(run.folder() / path, ignored))) continue;
    const auto bytes = journal.get_blob(blob);
    if (!bytes) return std::unexpected(bytes.error());
    const auto written = write_file_beneath(run.folder(), path, *bytes);
    if (!written) return written;
  }
  return {};
}

}  // namespace weft
