#include "slot.hpp"

#include <fts.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace weft {
namespace {

// RLIMIT_NPROC counts per user, so no two boxes may share one; a process id is
// a number that nobody else has. From 0x70000000 on, systemd's list of user
// ids (systemd.io/UIDS-GIDS) has nothing. A container may have mapped only the
// first 65,536: there, below those of systemd's dynamic users.
constexpr std::int64_t kFirstUid = 0x7000'0000;
constexpr std::int64_t kFirstSmallUid = 30'000;
constexpr std::int64_t kSmallUids = 30'000;

bool is_mapped(std::int64_t uid) {
  std::ifstream map("/proc/self/uid_map");
  std::int64_t first = 0, outside = 0, count = 0;
  while (map >> first >> outside >> count) {
    if (uid >= first && uid < first + count) return true;
  }
  return false;
}

/// Whether our user 0 may be that of the machine: of a namespace within another
/// one it is not known.
bool is_machine_root() {
  std::ifstream map("/proc/self/uid_map");
  std::int64_t first = 0, outside = 0, count = 0;
  while (map >> first >> outside >> count) {
    if (first == 0 && outside != 0) return false;
  }
  return true;
}

constexpr std::int64_t kEntriesMax = 200'000;

/// A walk through a tree of any depth, which follows no link.
class Walk {
 public:
  explicit Walk(const std::filesystem::path& folder) : path_(folder) {
    char* const roots[] = {path_.data(), nullptr};
    walk_ = fts_open(roots, FTS_PHYSICAL, nullptr);
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;
  ~Walk() {
    if (walk_ == nullptr) return;
    const int code = errno;
    fts_close(walk_);
    errno = code;
  }

  /// Null at the end: errno says whether it went through all.
  FTSENT* next() {
    if (walk_ == nullptr) return nullptr;
    errno = 0;
    return fts_read(walk_);
  }

 private:
  std::string path_;
  FTS* walk_ = nullptr;
};

/// Whether that entry could not be looked at though it is there.
bool is_closed_to_us(const FTSENT& entry) {
  const bool is_error = entry.fts_info == FTS_DNR || entry.fts_info == FTS_NS ||
                        entry.fts_info == FTS_ERR;
  return is_error && entry.fts_errno != ENOENT && entry.fts_errno != ENOTDIR;
}

}  // namespace

std::int64_t slot_uid() {
  if (geteuid() != 0) return -1;
  const std::int64_t uid = kFirstUid + getpid();
  if (is_mapped(uid)) return uid;
  const std::int64_t small = kFirstSmallUid + getpid() % kSmallUids;
  // A rootless container may have one user id, which it calls root. If that is
  // an ordinary user of the machine, the box gets a user namespace, as theirs
  // do.
  return is_mapped(small) || is_machine_root() ? small : -1;
}

Result<void> give_folder(const std::filesystem::path& folder,
                         std::int64_t uid) {
  const auto user = static_cast<uid_t>(uid);
  Walk walk(folder);
  while (const FTSENT* entry = walk.next()) {
    if (entry->fts_info == FTS_DP) continue;  // a folder, left again
    if (lchown(entry->fts_accpath, user, user) != 0) break;
  }
  if (errno == 0) return {};
  return fail(ErrorCode::failed,
              "cannot give the scratch folder " + folder.string() +
                  " to the sandbox: " + std::strerror(errno));
}

std::int64_t folder_bytes(const std::filesystem::path& folder,
                          std::int64_t limit) {
  std::int64_t bytes = 0;
  std::int64_t entries = 0;
  Walk walk(folder);
  while (const FTSENT* entry = walk.next()) {
    if (entry->fts_info == FTS_DP) continue;
    // What nobody can count may be any number of bytes.
    if (is_closed_to_us(*entry)) return limit + 1;
    if (entry->fts_info != FTS_NS && entry->fts_info != FTS_ERR) {
      bytes += static_cast<std::int64_t>(entry->fts_statp->st_blocks) * 512;
    }
    ++entries;
    if (bytes > limit || entries > kEntriesMax) return limit + 1;
  }
  // A tree whose paths are longer than fts can hold is no result of a kernel. A
  // folder that went while we looked is: the next look will tell.
  return errno == 0 || errno == ENOENT ? bytes : limit + 1;
}

}  // namespace weft
