"""Times calls on a GPU from inside the process that makes them.

Before each call the L2 cache is written over; after it the whole device is waited for, not
one stream. The oracle compares its clock with these times (device_rounds.py).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.device.cuda_driver import Driver

#: Written before each timed call: several times any L2 of today.
FLUSH_BYTES_MIN = 256 << 20
FLUSH_L2_TIMES = 4
#: To wait for an idle device takes less than this.
LATE_NS_MIN = 30_000
_clocks: dict[Driver, DeviceClock] = {}


def clock_of(driver: Driver) -> DeviceClock:
    """The driver's clock: a process' jobs share its buffer."""
    if driver not in _clocks:
        _clocks[driver] = DeviceClock(driver)
    return _clocks[driver]


class DeviceClock:
    """Two events and a buffer to flush with, made at first use."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._flush = 0
        self._value = 0

    def _prepare(self) -> None:
        if self._flush:
            return
        size = FLUSH_L2_TIMES * self._driver.attribute("l2_bytes")
        self._words = max(FLUSH_BYTES_MIN, size) // 4
        self._flush = self._driver.allocate(4 * self._words)
        self._events = (self._driver.event(), self._driver.event())

    def _flush_caches(self) -> None:
        """No line of a call's data is in the cache after this, not even one
        that asked to persist."""
        self._prepare()
        self._value += 1
        self._driver.call("cuCtxResetPersistingL2Cache")
        self._driver.call("cuMemsetD32Async", self._flush, self._value, self._words, None)

    def time(self, calls: Iterable[Callable[[], object]], waits: bool) -> dict[str, Any]:
        """Makes each call; the answer with what they took together.

        waits: the device is idle when a call begins, so its time holds what
        the host takes to launch it, and nothing can begin before its time.
        Else the flush still runs while the host launches, and the time is the
        device's alone: for candidates that are a list of launches.
        """
        each, late_ns = [], 0
        for call in calls:
            self._driver.synchronize()
            self._flush_caches()
            if waits:
                self._driver.synchronize()
            start, end = self._events
            self._driver.record(start)
            call()
            self._driver.record(end)
            late = self._late_ns(end)
            each.append(self._driver.elapsed_ns(start, end) + late)
            late_ns += late
        return {"ns": sum(each), "each_ns": each, "late_ns": late_ns}

    def _late_ns(self, end: ctypes.c_void_p) -> int:
        """How long the device goes on after the default stream is done: work
        that was put where the events do not see it."""
        self._driver.call("cuEventSynchronize", end)
        start = time.perf_counter_ns()
        self._driver.synchronize()
        late = time.perf_counter_ns() - start
        return late if late > LATE_NS_MIN else 0
