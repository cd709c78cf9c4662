"""The state of the search for one graph's kernels, for one set of sizes."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from weft.backend.options import log

if TYPE_CHECKING:
    from weft.backend.graphs.problem_source import Source
    from weft.backend.implementations.composed_module import ComposedModule

FORKED = (
    "the process was forked while its parent searched: the next call looks for "
    "what the parent found"
)


class Kernels:
    """The kernels of one graph for one set of sizes, or the state of their search.

    `state` is one of
    - "searching"
    - "forked": the parent process searches; the next call looks for its result
    - "loaded": verified by the search, not yet tried on the user's data
    - "ready"
    - "pytorch": PyTorch computes the graph from now on; `reason` says why
    """

    def __init__(self) -> None:
        #: time.monotonic() when weft began to write the problem file.
        self.begun_s = time.monotonic()
        #: Seconds of the budget that writing it took.
        self.spent_s = 0.0
        self.state = "searching"
        self.reason = ""
        self.summary = ""
        self.from_store = False
        #: True if an earlier process found them: they are verified once more.
        self.needs_verdict = False
        self.path = ""
        #: Precision of PyTorch's products, by the search's verdict: "tf32" or "".
        self.precision = ""
        self.source: Source | None = None
        #: The graph's text, if this process has captured it (own_capture.py); else "".
        self.graph = ""
        self.composed: ComposedModule | None = None
        #: Implementation without kernels, once it was selected: the fallback, or its
        #: CUDA graph.
        self.framework = None
        #: explain()'s text about CUDA graphs.
        self.replay = ""
        self.declined = 0
        self.calls = 0
        #: True if kernels for every batch were wanted but are not possible.
        self.is_refused = False
        self.settled = threading.Event()

    def refuse(self, reason: str) -> None:
        self.is_refused = True
        self.settle("pytorch", reason)

    def settle(self, state: Any, reason: str = "") -> None:
        if self.state == "pytorch":
            return  # given up by another thread, whose reason stays
        self.state, self.reason = state, reason
        if state == "pytorch":
            self.composed = None
            log.info("PyTorch computes a graph: %s", reason)
        self.settled.set()

    def after_fork(self) -> None:
        """In a child process, which has none of the parent's search threads."""
        was_settled, self.settled = self.settled.is_set(), threading.Event()
        if was_settled:
            self.settled.set()
        if self.state != "searching":
            return
        if self.composed is not None:
            self.settle("loaded")
        elif self.source is None:
            self.settle(
                "pytorch", "the process was forked while another thread wrote the graph down"
            )
        else:
            self.state, self.reason = "forked", FORKED
