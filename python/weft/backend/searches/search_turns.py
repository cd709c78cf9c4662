"""Which of a process's searches run at the same time."""

import contextlib
import os
import threading
from collections.abc import Iterator

from weft.backend.searches.background_verification import rechecks

#: Cores that one search keeps busy, and the most searches that run at once.
CORES_PER_SEARCH, SEARCHES_MAX = 2, 6


class SearchTurns:
    """Limits the searches at once in this process, and pauses full verdicts."""

    def __init__(self) -> None:
        self.at_once = max(1, min(SEARCHES_MAX, len(os.sched_getaffinity(0)) // CORES_PER_SEARCH))
        self._free = threading.Semaphore(self.at_once)
        self._lock = threading.Lock()
        self._count = 0
        self._paused = contextlib.ExitStack()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        with self._free:
            with self._lock:
                if self._count == 0:
                    self._paused.enter_context(rechecks.paused())
                self._count += 1
            try:
                yield
            finally:
                with self._lock:
                    self._count -= 1
                    if self._count == 0:
                        self._paused.close()


turns = SearchTurns()
