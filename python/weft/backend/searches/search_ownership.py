"""Which process searches for a graph: one on this machine, and no worker process.

Eight ranks of a job have the same graphs. The first that comes to a graph searches;
the others wait for its end and take what it stored: kernels, or the reason of a
failure. A file lock says who searches. The kernel frees it when its owner ends.
"""

import contextlib
import fcntl
import multiprocessing
import os
import platform
import threading
import time
import typing

from weft.backend.options import Options
from weft.backend.searches import module_store

#: Between two looks whether another process has ended its search.
POLL_S = 0.25
#: time.time() when this program began, as far as this package knows.
BEGUN_S = time.time()
WORKER = (
    "this is a worker process (forked, or of multiprocessing), which starts no "
    "search of its own: let the process that started it call the model first, "
    "or set the option worker_searches or WEFT_WORKER_SEARCHES=1"
)

_is_forked = False


class Event(typing.Protocol):
    """What says that this process ends."""

    def is_set(self) -> bool: ...


def is_worker() -> bool:
    """Whether another process of the same program started this one, to help it: a
    DataLoader's worker, one of a pool, a server's fork."""
    return _is_forked or multiprocessing.parent_process() is not None


def may_search(options: Options) -> bool:
    """By the option, else the environment, else no worker process may."""
    if options.worker_searches is not None:
        return options.worker_searches or not is_worker()
    named = os.environ.get("WEFT_WORKER_SEARCHES", "")
    return named not in ("", "0") or not is_worker()


class _Locks:
    """The locks of this process: one file, a byte for each key. Closing the file
    anywhere in the process would release all of them, so it stays open."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}  # by path: WEFT_CACHE_DIR may change
        self._held: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def take(self, key: str) -> bool:
        """False: another process, or another thread, has it. OSError: this file
        system has no locks."""
        path, byte = _path(), int(key[:15], 16)
        with self._lock:
            if (path, byte) in self._held:
                return False
            file = self._files.get(path)
            if file is None:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                file = self._files[path] = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except (BlockingIOError, PermissionError):
                return False
            self._held.add((path, byte))
            return True

    def give_back(self, key: str) -> None:
        path, byte = _path(), int(key[:15], 16)
        with self._lock:
            self._held.discard((path, byte))
            with contextlib.suppress(OSError):
                fcntl.lockf(self._files[path], fcntl.LOCK_UN, 1, byte)

    def after_fork(self) -> None:
        """In a child process, which has none of its parent's locks."""
        for file in self._files.values():
            os.close(file)
        self.__init__()  # type: ignore[misc]


_locks = _Locks()


def _path() -> str:
    """Of the file. A home that several machines share has one for each."""
    return os.path.join(
        os.path.dirname(module_store.folder()), f"searches-{platform.node() or 'here'}.lock"
    )


@contextlib.contextmanager
def turn(key: str, is_waiting_only: bool, ends: Event | None) -> typing.Iterator[bool]:
    """Waits until no other process searches for that key (a number in base 16),
    and gives whether it is this one's turn. It is not where `ends` is set, or where
    this process only waits for others."""
    while not (ends and ends.is_set()):
        try:
            if _locks.take(key):
                break
        except OSError:  # nobody can tell: then each searches
            yield not is_waiting_only
            return
        time.sleep(POLL_S)
    else:
        yield False
        return
    try:
        yield not is_waiting_only
    finally:
        _locks.give_back(key)


def _after_fork() -> None:
    global _is_forked
    _is_forked = True
    _locks.after_fork()


os.register_at_fork(after_in_child=_after_fork)
