"""How far weft is in this process: weft.status(), weft.wait() and weft.on_progress()."""

import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable

from weft.backend.entry.compiled_graph import all_compiled_graphs
from weft.backend.entry.notebook import Shown
from weft.backend.options import is_disabled, log, told
from weft.backend.searches.whole_program import all_programs

#: Seconds between two looks at the state.
INTERVAL_S = 0.2
#: Environment variable: any text but "" and "0" asks for lines on standard error.
LINES = "WEFT_PROGRESS"


@dataclasses.dataclass
class Status(Shown):
    """All graphs of this process, counted. `str()` is one sentence."""

    graphs: int = 0
    searching: int = 0  #: graphs whose search is under way
    awaiting_call: int = 0  #: graphs that need a call to go on
    generated: int = 0  #: graphs that generated kernels compute, as a whole or in part
    calls: int = 0
    calls_with_kernels: int = 0
    regions: int = 0  #: of graphs that Inductor compiles whole
    regions_generated: int = 0
    #: How many times as long Inductor's code takes for all calls of such graphs, one of
    #: each; 0: no such graph has been timed.
    over_compile: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether nothing is under way that goes on without a call."""
        return self.searching == 0

    def __str__(self) -> str:
        if not self.graphs:
            return "no graph yet"
        if self.regions:
            text = (
                f"{self.regions_generated} of {self.regions} "
                f"region{'s' * (self.regions != 1)} generated"
            )
        else:
            text = (
                f"{self.generated} of {self.graphs} "
                f"graph{'s' * (self.graphs != 1)} with generated kernels"
            )
        if self.over_compile:
            text += f"; {self.over_compile:.2f}× over torch.compile for this call"
        if self.searching:
            text += f"; {self.searching} under way"
        if self.awaiting_call:
            text += f"; {self.awaiting_call} continue at the next call"
        return text


def status() -> Status:
    """Returns the Status of all searches of this process. Never raises."""
    found = Status()
    for graph in all_compiled_graphs():
        found.calls += graph.calls
        for kernels in list(graph.kernels.values()):
            found.graphs += 1
            found.calls_with_kernels += kernels.calls
            found.searching += not kernels.settled.is_set() and (kernels.state == "searching")
            found.awaiting_call += kernels.state in ("loaded", "forked")
            found.generated += kernels.state == "ready"
    programs = all_programs()
    for program in programs:
        found.graphs += 1
        found.calls += program.calls
        found.calls_with_kernels += program.calls_with_kernels
        waits = program.awaits_call() or program.state in ("new", "forked")
        found.awaiting_call += waits
        found.searching += program.state == "searching" and not waits
        found.generated += program.has_kernels
        found.regions += len(program.candidates)
        found.regions_generated += sum(
            candidate.state == "generated" for candidate in program.candidates
        )
    timed = [one for one in programs if one.incumbent_s]
    if timed:
        found.over_compile = sum(one.incumbent_s for one in timed) / sum(
            one.incumbent_s / one.speedup for one in timed
        )
    return found


def wait(timeout: float | None = None) -> Status:
    """Blocks until no search can go on without a call of the model, or for `timeout`
    seconds. Returns the Status; its awaiting_call counts graphs that need a call."""
    until = None if timeout is None else time.monotonic() + timeout
    while not (found := status()).is_over:
        left = INTERVAL_S if until is None else until - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(left, INTERVAL_S))
    return found


class _Watch:
    """One thread that looks at the state and calls back when it has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Status], None]] = []
        self._thread: threading.Thread | None = None

    def add(self, callback: Callable[[Status], None]) -> None:
        with self._lock:
            self._callbacks.append(callback)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._work, name="weft-progress", daemon=True
                )
                self._thread.start()

    def remove(self, callback: Callable[[Status], None]) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._callbacks.remove(callback)

    def _work(self) -> None:
        last = ""
        while True:
            with self._lock:
                callbacks = list(self._callbacks)
                if not callbacks:
                    self._thread = None
                    return
            found = status()
            if found.graphs and str(found) != last:
                last = str(found)
                for callback in callbacks:
                    self._call(callback, found)
            time.sleep(INTERVAL_S)

    def _call(self, callback: Callable[[Status], None], found: Status) -> None:
        try:
            callback(found)
        except Exception as error:
            log.warning("a progress callback failed and is not called again: %s", told(error))
            self.remove(callback)


_watch = _Watch()
_lines_lock = threading.Lock()
_has_lines = False


def on_progress(callback: Callable[[Status], None] | None = None) -> Callable[[], None]:
    """Calls `callback` with the Status whenever its sentence changes, in another thread.

    Without a callback, writes a line to standard error. Returns the function that
    ends this."""
    used = callback or _write_line
    _watch.add(used)
    return lambda: _watch.remove(used)


def _write_line(found: Status) -> None:
    print(f"weft: {found}", file=sys.stderr, flush=True)


def lines_if_asked() -> None:
    """Progress lines, if WEFT_PROGRESS asks for them."""
    global _has_lines
    if is_disabled() or os.environ.get(LINES, "") in ("", "0"):
        return
    with _lines_lock:
        if _has_lines:
            return
        _has_lines = True
    on_progress()


def _after_fork() -> None:
    """A child process has none of the threads."""
    global _watch, _has_lines, _lines_lock
    _watch, _lines_lock, _has_lines = _Watch(), threading.Lock(), False


os.register_at_fork(after_in_child=_after_fork)
