#include "runtime/ui/run_index.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "actors/roster.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr int kDepthMax = 3;
constexpr std::size_t kFoldersMax = 100'000;
constexpr std::size_t kIdDigits = 12;

/// Which file it is, whatever its name was before; 0: there is none.
std::uint64_t journal_in(const fs::path& folder) {
  struct stat about{};
  const bool is_there = stat((folder / "journal.db").c_str(), &about) == 0;
  return is_there ? about.st_ino : 0;
}

RunIndex::Entry entry_of(const fs::path& folder) {
  std::error_code ignored;
  // The log has the newest events of a run that goes on.
  auto changed = fs::last_write_time(folder / "journal.db", ignored);
  const auto log = fs::last_write_time(folder / "journal.db-wal", ignored);
  if (!ignored) changed = std::max(changed, log);
  return {content_hash(folder.string()).substr(0, kIdDigits), folder, changed,
          journal_in(folder)};
}

}  // namespace

RunIndex::Run::Run(Entry entry, Journal opened)
    : entry(std::move(entry)),
      journal(std::move(opened)),
      journal_reader(journal, &make_role) {}

RunIndex::RunIndex(fs::path root)
    : root_(fs::absolute(root).lexically_normal()) {}

std::vector<RunIndex::Entry> RunIndex::list() const {
  std::vector<Entry> runs;
  std::error_code error;
  if (fs::is_regular_file(root_ / "journal.db", error)) {
    return {entry_of(root_)};
  }
  std::size_t looked_at = 0;
  auto folder = fs::recursive_directory_iterator(
      root_, fs::directory_options::skip_permission_denied, error);
  for (; !error && folder != fs::end(folder); folder.increment(error)) {
    if (++looked_at > kFoldersMax) break;
    if (!folder->is_directory(error)) continue;
    const bool is_run = fs::exists(folder->path() / "journal.db", error);
    if (is_run) runs.push_back(entry_of(folder->path()));
    if (is_run || folder.depth() + 1 >= kDepthMax) {
      folder.disable_recursion_pending();
    }
  }
  std::ranges::sort(runs, std::ranges::greater(), &Entry::changed);
  if (runs.size() > kRunsMax) runs.resize(kRunsMax);
  return runs;
}

Result<std::shared_ptr<RunIndex::Run>> RunIndex::open(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(
      open_, [&](const auto& run) { return run->entry.id == id; });
  if (known != open_.end()) {
    const Entry& entry = (*known)->entry;
    if (journal_in(entry.folder) == entry.journal) {
      open_.splice(open_.begin(), open_, known);
      return open_.front();
    }
    // Removed since, and perhaps begun anew in the same folder. While it is
    // open here, no other file can have its inode.
    open_.erase(known);
  }
  const std::vector<Entry> runs = list();
  const auto found = std::ranges::find(runs, id, &Entry::id);
  if (found == runs.end()) {
    return fail(ErrorCode::wrong_input, "there is no run " + id);
  }
  auto journal = Journal::open_read_only(found->folder / "journal.db");
  if (!journal) return std::unexpected(journal.error());
  open_.push_front(std::make_shared<Run>(*found, std::move(*journal)));
  if (open_.size() > kOpenMax) open_.pop_back();
  return open_.front();
}

Result<void> RunIndex::with(const std::string& id,
                            const std::function<void(Run&)>& use) {
  const auto run = open(id);
  if (!run) return std::unexpected(run.error());
  const std::lock_guard lock((*run)->mutex);
  RunCounters& run_counters = (*run)->run_counters;
  if ((*run)->journal_reader.last() > run_counters.events) {
    const auto read = (*run)->journal.read(run_counters.events + 1,
                                           [&](const Envelope& envelope) {
                                             run_counters.take(envelope);
                                             return true;
                                           });
    if (!read) return read;
  }
  use(**run);
  return {};
}

}  // namespace weft
