"""How long processors worked for a job.

The kernel counts it, for a process with all of its threads and for its first
one, which answers. Nothing in the job can tell it otherwise, and a busy machine
makes it no longer: who waits for a processor does not work.
"""

import os
import typing

from weft.device import process


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

    def __init__(self, child, is_private):
        self._child, self._is_private = child, is_private
        self._spared = {1, os.getpid()}
        #: Nanoseconds by then, of each process and of the child's first thread.
        self._seen = {child: process.worked_ns(child)}
        self._answering = process.main_thread_worked_ns(child)
        self._last_pid = -1

    def lap(self):
        before, self._seen = self._seen, {}
        last_pid = _last_pid() if self._is_private else -1
        is_all = last_pid == self._last_pid
        self._last_pid = last_pid
        for pid in before if is_all else {*before, *self._others()}:
            try:
                self._seen[pid] = process.worked_ns(pid)
            except ProcessLookupError:
                is_all = False
        spent = sum(ns - before.get(pid, 0) for pid, ns in self._seen.items())
        start = self._answering
        self._answering = process.main_thread_worked_ns(self._child)
        return Worked(self._answering - start, spent, is_all)

    def _others(self):
        if not self._is_private:
            return set()
        return {int(n) for n in os.listdir("/proc") if n.isdigit()} - self._spared


def _last_pid():
    """The number of this namespace's youngest process or thread."""
    with open("/proc/loadavg", encoding="ascii") as file:
        return int(file.read().split()[-1])
