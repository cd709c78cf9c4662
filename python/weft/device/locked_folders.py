"""Folders that a process works in, removed by a later one if it is killed.

The file `in-use` in such a folder is locked as long as its process lives. A folder whose
lock is free belongs to no process.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile

LOCK = "in-use"

_locks: set[int] = set()


def make(parent: str, prefix: str) -> tuple[str, int]:
    """(a new folder, its lock)"""
    while True:
        path = tempfile.mkdtemp(prefix=prefix, dir=parent)
        try:
            lock = os.open(os.path.join(path, LOCK), os.O_WRONLY | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(path, LOCK)):
            _locks.add(lock)
            return path, lock
        os.close(lock)  # a sweep was between the two calls


def remove(path: str, lock: int) -> None:
    """What make() has made. Does not raise."""
    shutil.rmtree(path, ignore_errors=True)
    _locks.discard(lock)
    with contextlib.suppress(OSError):
        os.close(lock)


def sweep(path: str) -> bool:
    """Removes a folder that no process works in any more. False: it has no lock, so
    nothing tells whether one does. Folders of other users stay."""
    try:
        about = os.lstat(path)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            return True
        lock = os.open(os.path.join(path, LOCK), os.O_WRONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except OSError:  # in use, or nothing tells whether it is
        pass
    finally:
        os.close(lock)
    return True


def _leave_locks() -> None:
    """In a child process, which would hold the folder of a parent that is gone."""
    while _locks:
        os.close(_locks.pop())


os.register_at_fork(after_in_child=_leave_locks)
