#include "slot.hpp"

#include <ftw.h>
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

// nftw has no room for a context of ours; the launcher has one thread.
struct Walk {
  uid_t uid = 0;
  std::int64_t limit = 0;
  std::int64_t bytes = 0;
  std::int64_t entries = 0;
} walk;

int give(const char* path, const struct stat* stat, int, FTW*) {
  if (stat->st_uid == walk.uid && stat->st_gid == walk.uid) return 0;
  return lchown(path, walk.uid, walk.uid);
}

int count(const char*, const struct stat* stat, int, FTW*) {
  walk.bytes += static_cast<std::int64_t>(stat->st_blocks) * 512;
  ++walk.entries;
  return walk.bytes > walk.limit || walk.entries > kEntriesMax;
}

constexpr int kFoldersOpen = 16;

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
  walk = {.uid = static_cast<uid_t>(uid)};
  if (nftw(folder.c_str(), give, kFoldersOpen, FTW_PHYS) != 0) {
    return fail(ErrorCode::failed,
                "cannot give the scratch folder " + folder.string() +
                    " to the sandbox: " + std::strerror(errno));
  }
  return {};
}

std::int64_t folder_bytes(const std::filesystem::path& folder,
                          std::int64_t limit) {
  walk = {.limit = limit};
  // A positive result is ours: over the limit. A negative one is a file that
  // went while we looked; the next look will tell.
  const int over = nftw(folder.c_str(), count, kFoldersOpen, FTW_PHYS);
  return over > 0 ? limit + 1 : walk.bytes;
}

}  // namespace weft
