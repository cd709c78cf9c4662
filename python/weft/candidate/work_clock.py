"""How long processors worked for a job.

The kernel counts it, for a process with all of its threads and for its first
one, which answers. Nothing in the job can tell it otherwise, and a busy machine
makes it no longer: who waits for a processor does not work.
"""

from __future__ import annotations

import os
import time
import typing

from weft.device import process


#: A process that is told to stop may be in the middle of a call of the kernel's,
#: which goes on to its end. It is given so long.
STOPPING_S = 0.005
#: From then on it does not work; what the kernel still counts as its work is less,
#: mostly: of a process that maps memory all the time 0.9 ms were seen, once in a
#: hundred messages. Whoever gains by it works in half of the rounds at least, of
#: four messages each or five.
STILL_NS = 200_000
WENT_ON_MIN = 5
WENT_ON_SHARE = 1 / 16


class Worked(typing.NamedTuple):
    """Since the last look, in nanoseconds."""

    #: By the thread that answers. Others may spin while they wait for work.
    answering_ns: int = 0
    by_all_ns: int = 0
    #: False: somebody may have come, worked and gone in between.
    is_all: bool = True


class WorkClock:
    """Of a job's child and, where nothing but the job is in our PID namespace,
    of every other process in there. To be looked at while they stand still."""

    def __init__(self, child: int, is_private: bool) -> None:
        self._child, self._is_private = child, is_private
        self._spared = {1, os.getpid()}
        #: Nanoseconds by then, of each process and of the child's first thread.
        self._seen = {child: process.worked_ns(child)}
        self._answering = process.main_thread_worked_ns(child)
        #: Processes that had not stopped when that was read: a long call of the
        #: kernel's ends before a stop takes effect.
        self._stopping: set[int] = set()
        self._last_pid = -1
        #: How often that was asked, and somebody had worked.
        self._looks = self._went_on = 0

    def lap(self) -> Worked:
        before, self._seen = self._seen, {}
        last_pid = _last_pid() if self._is_private else -1
        is_all = last_pid == self._last_pid
        self._last_pid = last_pid
        until = time.monotonic() + STOPPING_S
        self._stopping = set()
        for pid in before if is_all else {*before, *self._others()}:
            if pid != self._child and not process.await_stop(pid, until):
                self._stopping.add(pid)  # (the child's stop was waited for)
            try:
                self._seen[pid] = process.worked_ns(pid)
            except ProcessLookupError:
                is_all = False
        spent = sum(ns - before.get(pid, 0) for pid, ns in self._seen.items())
        start = self._answering
        self._answering = process.main_thread_worked_ns(self._child)
        return Worked(self._answering - start, spent, is_all)

    def went_on(self) -> bool:
        """Whether some of them work while all stand still: a timer of its own may
        wake a process. To be asked after each look, before they go on. (A new one
        there cannot be: another would have had to begin it.) A process that was
        still about to stop, and has stopped since, only ended a call of the
        kernel's: dozens that load PyTorch take longer to stop than STOPPING_S."""
        self._looks += 1
        self._went_on += any(
            _worked_since(pid, ns) > STILL_NS
            and not (pid in self._stopping and process.is_stopped(pid))
            for pid, ns in self._seen.items()
        )
        return self._went_on >= WENT_ON_MIN and self._went_on > WENT_ON_SHARE * self._looks

    def _others(self) -> set[int]:
        if not self._is_private:
            return set()
        return {int(n) for n in os.listdir("/proc") if n.isdigit()} - self._spared


def _worked_since(pid: int, ns: int) -> int:
    try:
        return process.worked_ns(pid) - ns
    except ProcessLookupError:
        return 0


def _last_pid() -> int:
    """The number of this namespace's youngest process or thread."""
    with open("/proc/loadavg", encoding="ascii") as file:
        return int(file.read().split()[-1])
