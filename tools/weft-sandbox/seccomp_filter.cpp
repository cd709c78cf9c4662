#include "seccomp_filter.hpp"

#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

namespace weft {
namespace {

constexpr const char* kDenied[] = {
    // Other processes: their memory, descriptors, state.
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise",
    "pidfd_getfd", "kcmp",
    // The file system's shape.
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount",
    "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
    "open_by_handle_at", "name_to_handle_at", "quotactl", "quotactl_fd",
    // Namespaces: a fresh user namespace would give capabilities back.
    "setns", "unshare",
    // Parts of the kernel with a long list of holes.
    "bpf", "userfaultfd", "perf_event_open", "keyctl", "add_key", "request_key",
    "fanotify_init", "lookup_dcookie", "modify_ldt", "uselib", "nfsservctl",
    "vhangup", "_sysctl",
    // The machine itself.
    "kexec_load", "kexec_file_load", "init_module", "finit_module",
    "delete_module", "create_module", "reboot", "swapon", "swapoff", "acct",
    "syslog", "iopl", "ioperm", "settimeofday", "stime", "clock_settime",
    "clock_adjtime", "adjtimex", "sethostname", "setdomainname",
    // Network. socketpair stays: Python's asyncio and pools live on it.
    "connect", "accept", "accept4",
    // Memory that belongs to no process escapes the watch over the tree.
    "shmget", "shmat", "shmctl", "msgget", "mq_open", "memfd_secret"};

// Absent rather than forbidden, so that programs take their older path:
// clone3 hides its flags from a filter (glibc then uses clone), io_uring opens
// sockets behind the filter's back, memfd is memory that nobody maps.
constexpr const char* kAbsent[] = {"clone3", "io_uring_setup", "io_uring_enter",
                                   "io_uring_register", "memfd_create"};

// Part of the network too. With a GPU they stay, since CUDA does not start
// without: it listens on a Unix socket with an abstract name, which only the
// box's own network namespace knows. None can connect: a socket that lies in a
// folder shown to the box would lead out of it.
constexpr const char* kDeniedWithoutGpu[] = {"socket", "bind", "listen"};

constexpr unsigned long kNamespaceFlags[] = {
    CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
    CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};

// Both put words into the terminal's input, as if the user had typed them.
constexpr unsigned long kTypingIoctls[] = {TIOCSTI, TIOCLINUX};

int deny(scmp_filter_ctx filter, const char* name, int error) {
  const int number = seccomp_syscall_resolve_name(name);
  if (number == __NR_SCMP_ERROR) return 0;  // not known on this machine
  return seccomp_rule_add(filter, SCMP_ACT_ERRNO(error), number, 0);
}

int fill(scmp_filter_ctx filter, bool gpu) {
  int bad = 0;
  for (const char* name : kDenied) bad |= deny(filter, name, EPERM);
  if (gpu) {
    bad |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                            SCMP_A0(SCMP_CMP_NE, AF_UNIX));
  } else {
    for (const char* name : kDeniedWithoutGpu) bad |= deny(filter, name, EPERM);
  }
  for (const char* name : kAbsent) bad |= deny(filter, name, ENOSYS);
  for (unsigned long flag : kNamespaceFlags) {
    bad |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
  }
  for (unsigned long request : kTypingIoctls) {
    // The kernel looks at 32 bits of the request only; so must the filter.
    bad |=
        seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                         SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffff'ffffUL, request));
  }
  bad |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socketpair),
                          1, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
  return bad;
}

}  // namespace

Result<void> load_seccomp_filter(bool gpu) {
  const std::unique_ptr<void, void (*)(void*)> filter(
      seccomp_init(SCMP_ACT_ALLOW), [](void* f) {
        if (f) seccomp_release(f);
      });
  if (!filter || fill(filter.get(), gpu) != 0) {
    return fail(ErrorCode::failed, "cannot build the seccomp filter");
  }
  // A binary of another architecture has other numbers: it is killed.
  seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH,
                   SCMP_ACT_KILL_PROCESS);
  if (const int error = seccomp_load(filter.get()); error != 0) {
    return fail(ErrorCode::failed, std::string("cannot load the seccomp "
                                               "filter: ") +
                                       std::strerror(-error));
  }
  return {};
}

}  // namespace weft
