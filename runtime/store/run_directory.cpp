#include "runtime/store/run_directory.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "runtime/llm/utf8.hpp"
#include "runtime/store/scratch_sweep.hpp"
#include "runtime/store/untrusted_files.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

const fs::path memory_folder = "/dev/shm";
const std::string scratch_prefix = "weft-";
const std::string scratch_suffix = "-scratch";
const char* const lock_name = "owner.lock";

/// Inputs and outputs of a model, in float32, a few times over.
constexpr unsigned long long kMemoryFreeMin = 2ull << 30;

bool has_free_space(const fs::path& folder) {
  struct statvfs about{};
  if (statvfs(folder.c_str(), &about) != 0) return false;
  if (access(folder.c_str(), W_OK) != 0) return false;
  return about.f_bavail * about.f_frsize >= kMemoryFreeMin;
}

/// Whether it is a folder of this user's. Everybody may write in /dev/shm.
bool is_own_folder(const fs::path& path) {
  struct stat about{};
  return lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) &&
         about.st_uid == geteuid();
}

/// A held lock on a scratch folder: its owner lives. -1: somebody else's.
int lock_folder(const fs::path& folder) {
  const fs::path file = folder / lock_name;
  const int lock =
      open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock < 0) return -1;
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
  close(lock);
  return -1;
}

/// The process that a scratch folder is named after; 0 for other folders.
pid_t owner_of(const std::string& name) {
  if (!name.starts_with(scratch_prefix)) return 0;
  if (!name.ends_with(scratch_suffix)) return 0;
  return std::atoi(name.c_str() + scratch_prefix.size());
}

/// Removes scratch folders whose owners died. The number tells that a folder
/// without a lock is being made; the lock, that a number's new bearer is none.
void sweep(const fs::path& parent) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    const pid_t owner = owner_of(entry.path().filename());
    if (owner <= 0 || !is_own_folder(entry.path())) continue;
    if (kill(owner, 0) == 0 || errno != ESRCH) continue;
    const int lock = lock_folder(entry.path());
    if (lock < 0) continue;
    (void)remove_tree(entry.path());
    close(lock);
  }
}

Error is_no_file(const fs::path& path) {
  return {ErrorCode::wrong_input,
          repaired_utf8(path.string()) +
              " is neither a file nor a folder of its own, but a link or a "
              "pipe, which weft does not make in a run directory: remove it"};
}

/// A folder that somebody else made may have links where weft writes by name:
/// it would write what they lead to. (Paths of a journal go through
/// write_file_beneath.)
Result<void> check_no_links(const RunDirectory& run) {
  std::error_code error;
  const auto is_of = [](const fs::path& path,
                        std::initializer_list<fs::file_type> types) {
    std::error_code ignored;
    const fs::file_type type = fs::symlink_status(path, ignored).type();
    return std::ranges::find(types, type) != types.end();
  };
  using enum fs::file_type;
  for (const auto& file : {run.journal(), run.llm_replies()}) {
    for (const char* end : {"", "-lock", "-wal", "-shm", "-journal"}) {
      const fs::path path = file.string() + end;
      if (!is_of(path, {regular, not_found})) {
        return std::unexpected(is_no_file(path));
      }
    }
  }
  for (const auto& folder : {run.logs(), run.builds()}) {
    if (!is_of(folder, {directory, not_found})) {
      return std::unexpected(is_no_file(folder));
    }
    fs::recursive_directory_iterator entries(folder, error);
    for (; !error && entries != fs::recursive_directory_iterator();
         entries.increment(error)) {
      // A run that goes on removes some meanwhile.
      const fs::path path = entries->path();
      if (!is_of(path, {regular, directory, not_found})) {
        return std::unexpected(is_no_file(path));
      }
    }
    if (error && error != std::errc::no_such_file_or_directory) {
      return fail(ErrorCode::failed,
                  "cannot list " + folder.string() + ": " + error.message());
    }
  }
  return {};
}

}  // namespace

Result<RunDirectory> RunDirectory::create(const fs::path& folder) {
  if (folder.empty()) {
    return fail(ErrorCode::wrong_input,
                "a run directory has a name: \"\" is none");
  }
  // Its path is told to processes as JSON.
  const std::string path = fs::absolute(folder).string();
  if (const std::string shown = repaired_utf8(path); shown != path) {
    return fail(ErrorCode::wrong_input,
                "the name of " + shown + " is not UTF-8: choose another");
  }
  std::error_code error;
  if (fs::exists(folder / "journal.db", error)) {
    return fail(ErrorCode::wrong_input,
                folder.string() +
                    " holds a run already: go on with 'weft resume " +
                    folder.string() + "', or choose another --out");
  }
  fs::create_directories(folder, error);
  if (error) {
    return fail(ErrorCode::missing, "cannot make the run directory " +
                                        folder.string() + ": " +
                                        error.message());
  }
  RunDirectory run(fs::absolute(folder).lexically_normal());
  if (const auto own = check_no_links(run); !own) {
    return std::unexpected(own.error());
  }
  return run;
}

Result<RunDirectory> RunDirectory::open(const fs::path& folder) {
  std::error_code error;
  const bool is_journal = fs::is_regular_file(folder, error);
  const fs::path run_folder = is_journal ? folder.parent_path() : folder;
  if (!fs::exists(run_folder / "journal.db", error)) {
    return fail(ErrorCode::wrong_input,
                folder.string() + " is no run directory: it has no journal.db");
  }
  RunDirectory run(
      fs::absolute(run_folder.empty() ? "." : run_folder).lexically_normal());
  if (const auto own = check_no_links(run); !own) {
    return std::unexpected(own.error());
  }
  return run;
}

Result<Scratch> Scratch::make(const RunDirectory& run) {
  const fs::path parent =
      has_free_space(memory_folder) ? memory_folder : run.folder();
  sweep(parent);
  const fs::path folder =
      parent / (scratch_prefix + std::to_string(getpid()) + scratch_suffix);
  mkdir(folder.c_str(), 0700);
  int lock = -1;
  if (is_own_folder(folder)) {
    // Sandboxed processes run as another user and must pass through.
    std::error_code error;
    fs::permissions(folder, fs::perms(0711), error);
    lock = lock_folder(folder);
  }
  if (lock < 0) {
    return fail(ErrorCode::missing,
                "cannot make the scratch folder " + folder.string());
  }
  return Scratch(folder, lock);
}

Scratch::Scratch(Scratch&& other) noexcept
    : folder_(std::exchange(other.folder_, {})),
      lock_(std::exchange(other.lock_, -1)) {}

Scratch::~Scratch() {
  if (lock_ < 0) return;
  (void)remove_tree(folder_);
  close(lock_);
}

void sweep_scratch() { sweep(memory_folder); }

fs::path default_run_folder(const fs::path& problem) {
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  const fs::path base =
      fs::path("weft-runs") / (problem.stem().string() + "-" + stamp);
  fs::path folder = base;
  std::error_code error;
  for (int i = 2; fs::exists(folder, error); ++i) {
    folder = base.string() + "-" + std::to_string(i);
  }
  return folder;
}

}  // namespace weft
