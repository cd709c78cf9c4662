"""The queue of graphs whose kernels this process searches for, or awaits from another
process that searches."""

from __future__ import annotations

import queue
import contextlib
import threading
import typing
import weakref

from weft.backend.implementations import composed_module
from weft.backend.options import Options, told
from weft.backend.searches import search, weft_process
from weft.backend.searches.background_verification import rechecks
from weft.backend.searches.search_state import Kernels
from weft.problem.problem import internal_error


class SearchedGraph(typing.Protocol):
    """A graph whose kernels are searched for; the search ends with it."""

    options: Options


#: Searches that may wait for their turn; further graphs stay PyTorch's.
WAITING_MAX = 256


class Searches:
    """One thread that searches for one graph after the other, so that the
    user's program keeps most of the machine."""

    def __init__(self, calls: typing.Callable[[], int]) -> None:
        """`calls`: how many calls of graphs there were in this process so far."""
        self._calls = calls
        self._queue: queue.Queue[tuple[weakref.ref[SearchedGraph], Kernels]] = queue.Queue(
            WAITING_MAX
        )
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._ends = threading.Event()

    def add(self, graph: SearchedGraph, kernels: Kernels) -> int:
        """The number of searches that are before this one."""
        before = self._queue.unfinished_tasks
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="weft-search", daemon=True)
                self._thread.start()
        try:
            self._queue.put_nowait((weakref.ref(graph), kernels))
        except queue.Full:
            kernels.settle("pytorch", f"{WAITING_MAX} graphs wait for their search already")
        return before

    def end(self) -> None:
        self._ends.set()
        weft_process.end_all()

    def _work(self) -> None:
        while not self._ends.is_set():
            reference, kernels = self._queue.get()
            graph = reference()
            if graph is not None:
                self._find(graph.options, kernels)
            del graph, reference, kernels
            self._queue.task_done()

    def _find(self, options: Options, kernels: Kernels) -> None:
        begun = self._calls()
        try:
            assert kernels.source is not None
            outcome = search.found(
                kernels.source,
                options,
                self._ends,
                kernels.spent_s,
                # A search elsewhere needs nothing of this machine.
                contextlib.nullcontext if options.head else rechecks.paused,
                graph=kernels.graph,
            )
            kernels.summary = outcome.summary
            if not outcome.from_store:
                kernels.summary += _told_of_calls(self._calls() - begun)
            kernels.from_store = outcome.from_store
            kernels.needs_verdict = outcome.from_store
            kernels.path = outcome.path
            kernels.precision = search.precision_in(outcome.path)
            if not outcome.has_kernels:
                kernels.settle("pytorch", outcome.reason)
                return
            kernels.composed = composed_module.ComposedModule(kernels.source, outcome.path)
            kernels.settle("loaded")
        except search.OneBatch as error:
            kernels.refuse(str(error))
        except (search.SearchFailed, weft_process.ProgramMissing, composed_module.Revoked) as error:
            kernels.settle("pytorch", str(error))
        except Exception as error:
            kernels.settle("pytorch", internal_error(f"the search failed with {told(error)}"))
        finally:
            kernels.graph = ""


def _told_of_calls(count: int) -> str:
    """What one has to know of a search's times: the device was not its own."""
    return (
        f"; the program made {count} calls meanwhile, so no time is of a "
        "machine that was left alone"
        if count > 0
        else ""
    )
