"""Locks a GPU: for many checks at once, or for one timing alone. Checks that fill much of
its memory run together only if they fit.

The locks are on files, one set for each device. So they hold between unrelated processes,
and are free again however their holder ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from weft.device.trace_spans import lap

if TYPE_CHECKING:
    from weft.device.cuda_driver import Driver

#: Where the files lie, for who has another temporary folder: in a sandbox.
FOLDER_VARIABLE = "WEFT_GPU_LOCKS"
#: A device's memory is given out in so many parts, …
ROOM_PARTS = 16
#: … this share of it: the rest is for many processes' contexts and small things.
ROOM_SHARE = 0.75
#: A verdict on tensors takes so many times their size: inputs and results of
#: three processes, and those of float64 …
ROOM_COPIES = 6
#: … or so many where that is not asked for, as a rule.
ROOM_COPIES_NEAR = 4
#: Who keeps what it will need again has so many: that, and a verdict beside it.
ROOM_COPIES_KEPT = 10
_ROOM_POLL_S = 0.02


def parts_of(memory_bytes: int, tensors_bytes: int, copies: float = ROOM_COPIES) -> int:
    """How much room to take, of ROOM_PARTS, for a verdict on such tensors."""
    part = memory_bytes * ROOM_SHARE / ROOM_PARTS
    return min(ROOM_PARTS, math.ceil(tensors_bytes * copies / part))


def lock_of(driver: Driver | None) -> DeviceLock | NoLock:
    """The lock of that driver's device; None, of the host: it never waits."""
    if driver is None:
        return NoLock()
    folder = os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()
    path = os.path.join(folder, f"weft-gpu-{driver.uuid()}")
    return DeviceLock(path)


class NoLock:
    """The same interface where nothing is shared."""

    waited_s = 0.0
    room_held = 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        yield

    exclusive = released = shared

    def room(self, parts: int) -> contextlib.AbstractContextManager[None]:
        return self.shared()

    def extend_room(self, parts: int) -> bool:
        return True

    def is_room_sought(self) -> bool:
        return False

    def make_way(self) -> None:
        pass

    def seek(self, is_enough: Callable[[], bool], seconds: float) -> None:
        pass

    @contextlib.contextmanager
    def for_at_most(self, seconds: float) -> Iterator[None]:
        yield

    def close(self) -> None:
        pass


class DeviceLock:
    """Not thread-safe. `waited_s` adds up what was waited for others."""

    def __init__(self, path: str) -> None:
        #: Passed through on the way to the lock. Those who want it alone hold
        #: this together while they wait, and newcomers who would share it pass
        #: one by one: so they queue behind, and timings run one after another.
        #: Nobody waits for ever: a timing begins with a share.
        self._turn = open_lock_file(path + ".turn")
        self._lock = open_lock_file(path + ".lock")
        #: Held by the one who looks for room.
        self._seeking = open_lock_file(path + ".room")
        self._room = [open_lock_file(f"{path}.room{part}") for part in range(ROOM_PARTS)]
        self._parts: list[int] = []  # that are ours
        self._mode = fcntl.LOCK_UN
        self.waited_s = 0.0

    def shared(self) -> contextlib.AbstractContextManager[None]:
        return self._in_mode(fcntl.LOCK_SH)

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Within `shared`, too: it is given up for as long."""
        return self._in_mode(fcntl.LOCK_EX)

    def released(self) -> contextlib.AbstractContextManager[None]:
        """Within `shared`: for as long, the device is not used from here."""
        return self._in_mode(fcntl.LOCK_UN)

    @contextlib.contextmanager
    def _in_mode(self, mode: int) -> Iterator[None]:
        before = self._change(mode)
        try:
            yield
        finally:
            self._change(before)

    def make_way(self) -> None:
        """Between two pieces of work, while nothing of ours runs on the device:
        who waits to have it alone goes first. Only a share is given up for it;
        room is kept."""
        if self._mode != fcntl.LOCK_SH:
            return
        if _take(self._turn):  # nobody waits
            fcntl.flock(self._turn, fcntl.LOCK_UN)
            return
        with self.released():
            pass

    @contextlib.contextmanager
    def room(self, parts: int) -> Iterator[None]:
        """So many parts of the device's memory. Never taken within the others,
        so that who waits for it keeps nobody from ending; nor twice."""
        start = time.monotonic()
        try:
            with lap("room"):
                self._seek(parts)
            self.waited_s += time.monotonic() - start
            yield
        finally:
            self._leave_room()

    def _seek(self, parts: int) -> None:
        """One after another, so that who needs much is not passed by."""
        fcntl.flock(self._seeking, fcntl.LOCK_EX)
        try:
            while not self._take_parts(parts):
                time.sleep(_ROOM_POLL_S)
        finally:
            fcntl.flock(self._seeking, fcntl.LOCK_UN)

    def seek(self, is_enough: Callable[[], bool], seconds: float) -> None:
        """Until that is so, or for so long: who only keeps what it could make
        again sees it, and gives that up. Within room, too: who seeks that is
        seen as well, and not waited for."""
        start = time.monotonic()
        is_ours = False
        try:
            with lap("memory of others"):
                while not is_enough() and time.monotonic() < start + seconds:
                    is_ours = is_ours or _take(self._seeking)
                    time.sleep(_ROOM_POLL_S)
        finally:
            if is_ours:
                fcntl.flock(self._seeking, fcntl.LOCK_UN)
        self.waited_s += time.monotonic() - start

    def _take_parts(self, parts: int) -> bool:
        """Those that are free, up to so many in all; whether that is all."""
        for part in self._room:
            if len(self._parts) < parts and part not in self._parts and _take(part):
                self._parts.append(part)
        return len(self._parts) >= parts

    def _leave_room(self) -> None:
        for part in self._room:
            fcntl.flock(part, fcntl.LOCK_UN)
        self._parts.clear()

    @property
    def room_held(self) -> int:
        """Parts of the device's memory."""
        return len(self._parts)

    def extend_room(self, parts: int) -> bool:
        """Within `room`: whether it has so many now, without waiting, and
        nobody waits for any."""
        if not _take(self._seeking):
            return False
        try:
            return self._take_parts(parts)
        finally:
            fcntl.flock(self._seeking, fcntl.LOCK_UN)

    def is_room_sought(self) -> bool:
        """Whether somebody waits for a part."""
        if not _take(self._seeking, fcntl.LOCK_SH):  # as others who look
            return True
        fcntl.flock(self._seeking, fcntl.LOCK_UN)
        return False

    @contextlib.contextmanager
    def for_at_most(self, seconds: float) -> Iterator[None]:
        """Within it, what is held so long is let go, whatever its holder
        does: code of unknown making that hangs must not block others."""
        timer = threading.Timer(seconds, self._let_go)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _let_go(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._leave_room()

    def _change(self, mode: int) -> int:
        """Takes the lock in that mode; the mode that it was in."""
        before, self._mode = self._mode, mode
        if before == mode:
            return before
        # Never from one mode to another: two that both wait would block.
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        if mode != fcntl.LOCK_UN:
            start = time.monotonic()
            is_alone = mode == fcntl.LOCK_EX
            with lap("alone" if is_alone else "share"):
                fcntl.flock(self._turn, fcntl.LOCK_SH if is_alone else fcntl.LOCK_EX)
                fcntl.flock(self._lock, mode)
                fcntl.flock(self._turn, fcntl.LOCK_UN)
            self.waited_s += time.monotonic() - start
        return before

    def close(self) -> None:
        for descriptor in (self._lock, self._turn, self._seeking, *self._room):
            os.close(descriptor)


def _take(descriptor: int, mode: int = fcntl.LOCK_EX) -> bool:
    """Whether it was free, and is ours now."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_lock_file(path: str) -> int:
    """A descriptor for it; made for all users if it is not there.

    Opened for reading: a lock needs no more, and another user's file in a
    shared folder may not be opened with O_CREAT. A pipe that another user left
    there is not waited for.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
            continue  # somebody else was first
        os.fchmod(made, 0o644)
        return made
