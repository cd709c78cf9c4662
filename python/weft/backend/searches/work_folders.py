"""Folders of searches and verifications. If a process is killed, a later one sweeps its
folder.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from weft.backend.searches import module_store
from weft.device import locked_folders

#: Of a folder without that file (a verdict's by an earlier weft, or one whose
#: process is about to write it): untouched for so long, it is nobody's.
UNLOCKED_S = 24 * 3600.0

_swept: set[Any] = set()  # by this process


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
    with _advice():
        path, lock = locked_folders.make(place(), prefix)
    try:
        yield path
    finally:
        locked_folders.remove(path, lock)


def _new(prefix: Any) -> Any:
    with _advice():
        return tempfile.mkdtemp(prefix=prefix, dir=place())


@contextlib.contextmanager
def _advice() -> Iterator[None]:
    try:
        yield
    except OSError as error:  # a home that nobody can write to, in a container
        raise OSError(
            error.errno,
            f"{error.strerror}: set WEFT_CACHE_DIR to a folder that can be written",
            error.filename,
        ) from None


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
        if not locked_folders.sweep(path):
            _sweep_unlocked(path)


def _sweep_unlocked(path: str) -> None:
    """Runs without the file are kept for a person (WEFT_KEEP_RUNS)."""
    with contextlib.suppress(OSError):
        if (
            os.path.basename(path).startswith("verdict-")
            and time.time() - os.stat(path).st_mtime > UNLOCKED_S
        ):
            shutil.rmtree(path, ignore_errors=True)
