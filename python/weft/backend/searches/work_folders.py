"""Folders that a process works in, swept by a later one if it is killed.

The file `in-use` in it is locked as long as its process lives. A folder whose lock is free
belongs to no process.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from weft.backend.searches import module_store

LOCK = "in-use"
#: Of a folder without that file (a verdict's by an earlier weft, or one whose
#: process is about to write it): untouched for so long, it is nobody's.
UNLOCKED_S = 24 * 3600.0

_swept: set[Any] = set()  # by this process
_locks: set[int] = set()


def _path() -> str:
    """Where they are."""
    return os.path.join(os.path.dirname(module_store.folder()), "runs")


def place() -> Any:
    """The same; it is made."""
    path = _path()
    os.makedirs(path, exist_ok=True)
    return path


@contextlib.contextmanager
def made(prefix: Any, is_kept: bool = False) -> Iterator[Any]:
    """A new folder, which goes in the end, unless it is kept for a person."""
    sweep()
    if is_kept:
        yield _new(prefix)
        return
    path, lock = _made(prefix)
    _locks.add(lock)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _locks.discard(lock)
        os.close(lock)


def _new(prefix: Any) -> Any:
    try:
        return tempfile.mkdtemp(prefix=prefix, dir=place())
    except OSError as error:  # a home that nobody can write to, in a container
        raise OSError(
            error.errno,
            f"{error.strerror}: set WEFT_CACHE_DIR to a folder that can be written",
            error.filename,
        ) from None


def _made(prefix: Any) -> tuple[Any, Any]:
    while True:
        path = _new(prefix)
        try:
            lock = os.open(os.path.join(path, LOCK), os.O_WRONLY | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(path, LOCK)):
            return path, lock
        os.close(lock)  # a sweep was between the two calls


def sweep() -> None:
    """Removes what processes left that were killed; once in a process, and never
    raises."""
    folder = _path()
    if folder in _swept:
        return
    _swept.add(folder)
    try:
        found = [
            entry.path
            for entry in os.scandir(folder)
            if entry.name.startswith(("run-", "verdict-"))
        ]
    except OSError:
        return
    for path in found:
        _sweep(path)


def _sweep(path: str) -> None:
    try:
        lock = os.open(os.path.join(path, LOCK), os.O_WRONLY)
    except OSError:
        _sweep_unlocked(path)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except OSError:  # in use, or nothing tells whether it is
        pass
    finally:
        os.close(lock)


def _sweep_unlocked(path: str) -> None:
    """Runs without the file are kept for a person (WEFT_KEEP_RUNS)."""
    with contextlib.suppress(OSError):
        if (
            os.path.basename(path).startswith("verdict-")
            and time.time() - os.stat(path).st_mtime > UNLOCKED_S
        ):
            shutil.rmtree(path, ignore_errors=True)


def _leave_locks() -> None:
    """In a child process, which would hold the folder of a parent that is gone."""
    while _locks:
        os.close(_locks.pop())


os.register_at_fork(after_in_child=_leave_locks)
