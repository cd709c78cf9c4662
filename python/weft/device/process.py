"""The few Linux calls that keep an untrusted process tree in hand."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
#: Of a clock's number: clock_getcpuclockid(3), which Python has not.
_CPUCLOCK_SCHED = 2

_libc = ctypes.CDLL(None, use_errno=True)

_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]

#: Of mallopt(3).
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
#: At the heap's end so much stays that was freed.
KEPT_BYTES = 1 << 30


def harden() -> None:
    """No other process of this user may trace us; no privileges are gained."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def die_with_parent() -> None:
    """SIGKILL when the parent dies; `parent` is checked by the caller."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def nice_session(pid: int, niceness: int) -> None:
    """Makes the session that the child `pid` began (setsid) as nice as that. To a
    kernel that weighs sessions (sched(7), "The autogroup feature"), a process is
    nice to those of its own session alone. Another kernel has no such file; one
    that is told too often, by others than root, asks to be told again."""
    if niceness <= 0:
        return  # it begins so
    for _ in range(10):
        try:
            with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as file:
                file.write(str(niceness))
            return
        except BlockingIOError:
            time.sleep(0.03)
        except OSError:
            return


def adopt_orphans() -> None:
    """Daemons among our descendants become our children, thus killable."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def keep_freed_memory(*mapped_bytes: int) -> None:
    """What is freed stays with the process, for blocks of no more than the first of
    those sizes that the C library takes (glibc before 2.35 takes 32 MiB); larger
    ones come from the kernel each time, page by page."""
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt and any(mallopt(_M_MMAP_THRESHOLD, size) for size in mapped_bytes):
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def give_back_freed_memory() -> None:
    """All of it, also what lies below blocks that are in use."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def manner() -> tuple[set[int], int, int, list[tuple[int, int]]]:
    """How this process is run, as what it forks will be: on which processors,
    how willingly, and within which limits."""
    return (
        os.sched_getaffinity(0),
        os.getpriority(os.PRIO_PROCESS, 0),
        os.sched_getscheduler(0),
        [resource.getrlimit(limit) for limit in _LIMITS],
    )


def pid_namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def children() -> list[int]:
    """Pids of the children of this process' main thread."""
    try:
        path = f"/proc/self/task/{os.getpid()}/children"
        with open(path, encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return _children_by_scan()


def first_descendant(pid: int, program: str) -> int:
    """The process that runs `program` among `pid`, its oldest child, that one's oldest
    child and so on; 0: there is none."""
    while pid:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().split(b"\0")[0] == os.fsencode(program):
                    return pid
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                pid = next((int(word) for word in file.read().split()), 0)
        except OSError:
            return 0
    return 0


def is_suspended(pid: int) -> bool:
    """Whether that process is stopped by a signal and can go on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"T"
    except OSError:
        return False


def _children_by_scan() -> list[int]:
    me = os.getpid()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if _parent(pid) == me]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return int(f.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def is_stopped(pid: int) -> bool:
    """Whether that process is stopped, dead or gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in b"TtZX"
    except OSError:
        return True


def await_stop(pid: int, until: float) -> bool:
    """is_stopped(), as soon as it is true, or at that monotonic time."""
    while not is_stopped(pid):
        if time.monotonic() >= until:
            return False
        time.sleep(0.0001)
    return True


def await_exit(pid: int, seconds: float) -> None:
    """Returns when that child can be reaped, or after that time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return
        except ChildProcessError:  # it is reaped
            return
        time.sleep(0.002)


def resident_bytes(pid: int) -> int:
    """Resident memory of that process that is not shared; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            _, resident, shared = file.read().split()[:3]
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGESIZE")


def worked_ns(pid: int) -> int:
    """Processor time of all threads that process ever had, to the nanosecond;
    ProcessLookupError. Waiting for a processor is no part of it."""
    try:
        return time.clock_gettime_ns(~pid << 3 | _CPUCLOCK_SCHED)
    except OSError:
        raise ProcessLookupError(pid) from None


def main_thread_worked_ns(pid: int) -> int:
    """The same of its first thread alone; 0: the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def virtual_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")


def send_signal(pid: int, number: int) -> None:
    """kill() that does not mind a process already gone."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
