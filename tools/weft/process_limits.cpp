#include "tools/weft/process_limits.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace weft {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

struct Need {
  __rlimit_resource_t resource;
  const char* what;
  const char* flag;  ///< of ulimit
  std::int64_t least;
  std::int64_t unit;  ///< of ulimit's number
  const char* unit_name;
};

/// Measured with PyTorch 2.13 for the CPU on two cores, 2026-11-29: a run has
/// up to 90 open files, maps up to 5 GiB in a process, and writes files of up
/// to 40 MB.
constexpr Need kNeeds[] = {
    {RLIMIT_NOFILE, "open files", "-n", 256, 1, ""},
    {RLIMIT_AS, "address space", "-v", 12 * 1024 * kMiB, 1024, " KiB"},
    {RLIMIT_DATA, "data segment", "-d", 8 * 1024 * kMiB, 1024, " KiB"},
    {RLIMIT_FSIZE, "file size", "-f", 256 * kMiB, 1024, " KiB"},
};

Result<void> check(const Need& need) {
  rlimit set{};
  if (getrlimit(need.resource, &set) != 0) return {};
  if (set.rlim_cur != set.rlim_max) {
    set.rlim_cur = set.rlim_max;
    setrlimit(need.resource, &set);
    if (getrlimit(need.resource, &set) != 0) return {};
  }
  if (set.rlim_cur == RLIM_INFINITY ||
      set.rlim_cur >= static_cast<rlim_t>(need.least)) {
    return {};
  }
  const auto shown = [&](std::int64_t value) {
    return std::to_string(value / need.unit) + need.unit_name;
  };
  return fail(
      ErrorCode::missing,
      std::string("the limit of ") + need.what + " is " +
          shown(static_cast<std::int64_t>(set.rlim_cur)) + ", and weft needs " +
          shown(need.least) + ": raise it with 'ulimit " + need.flag + " " +
          std::to_string(need.least / need.unit) + "', or in what starts weft");
}

Result<void> check_temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  if (folder == nullptr || *folder == '\0') return {};
  struct stat about{};
  const bool is_there = stat(folder, &about) == 0;
  const int code = is_there && !S_ISDIR(about.st_mode) ? ENOTDIR : errno;
  if (is_there && S_ISDIR(about.st_mode) && access(folder, W_OK | X_OK) == 0) {
    return {};
  }
  return fail(ErrorCode::missing,
              std::string("TMPDIR names ") + folder +
                  ", where no file can be made: " + std::strerror(code) +
                  "; make the folder, or set TMPDIR to another");
}

}  // namespace

Result<void> check_process_limits() {
  for (const Need& need : kNeeds) {
    if (const auto enough = check(need); !enough) return enough;
  }
  return check_temporary_folder();
}

}  // namespace weft
