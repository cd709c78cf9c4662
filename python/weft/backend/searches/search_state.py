"""The state of the search for one graph's kernels, for one set of sizes."""

import threading
import time
from typing import Any

from weft.backend.options import log

FORKED = ("the process was forked while its parent searched: the next call looks for "
          "what the parent found")


class Kernels:
    """What one graph has for one set of sizes, and how far it is.

    states: "searching"; "forked" (the search is the parent process's; the next
    call looks for its result); "loaded" (verified by the search, not yet tried on the
    user's data); "ready"; "framework" (it stays there; `reason` says why)."""

    def __init__(self) -> None:
        #: time.monotonic() when it was begun to write the graph down.
        self.begun_s = time.monotonic()
        #: Seconds of the budget that this took.
        self.spent_s = 0.0
        self.state = "searching"
        self.reason = ""
        self.summary = ""
        self.from_store = False
        #: An earlier process found them: they are to be judged once more.
        self.needs_verdict = False
        self.path = ""
        #: Of the framework's products, by the search's verdict: "tf32".
        self.precision = ""
        self.source = None
        self.composed = None
        #: Who computes where kernels do not, once it was looked for: a replay
        #: of the framework, or the framework.
        self.framework = None
        #: What explain() tells of CUDA graphs.
        self.replay = ""
        self.declined = 0
        self.calls = 0
        #: Kernels for every batch were wanted, and cannot be.
        self.is_refused = False
        self.settled = threading.Event()

    def refuse(self, reason: str) -> None:
        self.is_refused = True
        self.settle("framework", reason)

    def settle(self, state: Any, reason: str = "") -> None:
        if self.state == "framework":
            return  # given up by another thread, whose reason stays
        self.state, self.reason = state, reason
        if state == "framework":
            self.composed = None
            log.info("a graph stays the framework's: %s", reason)
        self.settled.set()

    def after_fork(self) -> None:
        """In a child process, which has none of the threads that were busy with
        this."""
        was_settled, self.settled = self.settled.is_set(), threading.Event()
        if was_settled:
            self.settled.set()
        if self.state != "searching":
            return
        if self.composed is not None:
            self.settle("loaded")
        elif self.source is None:
            self.settle("framework", "the process was forked while another "
                        "thread wrote the graph down")
        else:
            self.state, self.reason = "forked", FORKED
