#include "bubblewrap.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace weft {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

void add(Words& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

/// Shows a path where it is. Its parents are made first, since bubblewrap makes
/// missing ones for its own user alone, whom the command leaves.
void add_path(Words& words, const char* how, const fs::path& path) {
  fs::path parent;
  for (const auto& part : path.parent_path()) {
    parent /= part;
    if (parent != "/") add(words, {"--perms", "0755", "--dir", parent});
  }
  add(words, {how, path, path});
}

void add_namespaces(Words& words, const SandboxOrder& order) {
  if (order.uid < 0) {
    add(words, {"--unshare-user"});
  } else {
    // Root needs no user namespace, and one would be worse: files of root
    // would stay readable. It keeps just what the change of user takes.
    add(words, {"--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"});
  }
  add(words, {"--unshare-ipc", "--unshare-pid", "--unshare-net",
              "--unshare-uts", "--unshare-cgroup-try", "--hostname", "weft",
              "--die-with-parent", "--new-session"});
}

void add_system(Words& words) {
  add(words, {"--ro-bind", "/usr", "/usr"});
  for (const char* path : {"/bin", "/sbin", "/lib", "/lib32", "/lib64"}) {
    std::error_code absent;
    if (fs::is_symlink(path, absent)) {
      add(words, {"--symlink", fs::read_symlink(path, absent), path});
    } else {
      add(words, {"--ro-bind-try", path, path});
    }
  }
  // Of /etc only what the loader and Debian's alternatives (BLAS, c++) need;
  // of /sys what torch asks to count cores and caches.
  for (const char* path :
       {"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf",
        "/etc/ld.so.conf.d", "/sys/devices/system/cpu",
        "/sys/devices/system/node"}) {
    add_path(words, "--ro-bind-try", path);
  }
  add(words, {"--proc", "/proc", "--dev", "/dev"});
}

bool is_nvidia_device(const std::string& name) {
  static constexpr std::string_view known[] = {
      "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps"};
  if (std::ranges::find(known, name) != std::end(known)) return true;
  return name.starts_with("nvidia") && name.size() > 6 &&
         std::ranges::all_of(name.substr(6),
                             [](unsigned char c) { return std::isdigit(c); });
}

/// The devices that CUDA opens; the rest of its driver is below /usr. Of the
/// others in /dev, nvidia-modeset drives screens, and nvidia-nvswitch* and
/// nvidia-caps-imex-channels join machines.
void add_gpu(Words& words) {
  std::error_code unread;
  for (const auto& entry : fs::directory_iterator("/dev", unread)) {
    if (!is_nvidia_device(entry.path().filename())) continue;
    add(words, {"--dev-bind", entry.path(), entry.path()});
  }
}

void add_memory_folders(Words& words, const SandboxLimits& limits) {
  for (const char* path : {"/tmp", "/dev/shm"}) {
    add(words, {"--perms", "1777", "--size",
                std::to_string(limits.memory_bytes), "--tmpfs", path});
  }
}

/// Parents first: a later mount would hide what lies below it.
void add_folders(Words& words, const SandboxRequest& request) {
  struct Folder {
    const char* how;
    fs::path path;
  };
  std::vector<Folder> folders = {{"--bind", request.scratch}};
  for (const auto& path : request.readable) {
    folders.push_back({"--ro-bind", path});
  }
  std::ranges::stable_sort(folders, {}, [](const Folder& folder) {
    return std::ranges::distance(folder.path);
  });
  for (const Folder& folder : folders) {
    add_path(words, folder.how, folder.path);
  }
}

void add_environment(Words& words, const SandboxRequest& request) {
  add(words, {"--clearenv"});
  for (auto [name, value] :
       std::initializer_list<std::pair<const char*, std::string>>{
           {"PATH", "/usr/local/bin:/usr/bin:/bin"},
           {"HOME", request.scratch},
           {"TMPDIR", "/tmp"},
           {"LANG", "C.UTF-8"},
           {"USER", "weft"},
           {"LOGNAME", "weft"}}) {
    add(words, {"--setenv", name, value});
  }
  for (const auto& [name, value] : request.environment) {
    add(words, {"--setenv", name, value});
  }
}

Words inner_words(const SandboxOrder& order) {
  SandboxOrder inner;
  inner.step = SandboxOrder::Step::inside;
  inner.request.scratch = order.request.scratch;
  inner.request.limits = order.request.limits;
  inner.request.gpu = order.request.gpu;
  inner.request.command = order.request.command;
  inner.uid = order.uid;
  return words_of(inner);
}

}  // namespace

Words bubblewrap_words(const SandboxOrder& order, int info_fd) {
  Words words = {"bwrap", "--cap-drop", "ALL"};
  add_namespaces(words, order);
  add_system(words);
  if (order.request.gpu) add_gpu(words);
  add_memory_folders(words, order.request.limits);
  add_folders(words, order.request);
  std::error_code unread;
  const auto self = fs::read_symlink("/proc/self/exe", unread);
  add(words, {"--ro-bind", self, kLauncherInside});
  // What bubblewrap made itself lies in memory too, without a size.
  add(words, {"--remount-ro", "/dev", "--remount-ro", "/"});
  add_environment(words, order.request);
  add(words, {"--chdir", "/", "--info-fd", std::to_string(info_fd), "--",
              kLauncherInside});
  const Words inner = inner_words(order);
  words.insert(words.end(), inner.begin(), inner.end());
  return words;
}

}  // namespace weft
