"""One graph of the user's program as Inductor compiles it: the incumbent computes its
calls until a variant with generated kernels is faster.

Nothing of weft's raises out of a call: whatever fails is written down for
weft.explain(), and the incumbent computes."""

import dataclasses
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from weft.backend.implementations import select_implementation
from weft.backend.implementations.incumbent import Compiled, Request
from weft.backend.options import Options, is_disabled, log, told
from weft.backend.searches import search
from weft.backend.searches.region_search import Candidate

_programs: "weakref.WeakSet[WholeProgram]" = weakref.WeakSet()
_number = 0
#: explain() says this about calls that PyTorch's own CUDA graphs replay.
INDUCTOR_GRAPHS = "Inductor's CUDA graphs"


def all_programs() -> "list[WholeProgram]":
    """Of this process that still can be called, in the order they were made."""
    return sorted(_programs, key=lambda program: program.number)


@dataclasses.dataclass
class Step:
    """Work that needs a call's arguments; the next call does it, and is held up."""

    work: Callable[[list[Any]], None]
    done: threading.Event = dataclasses.field(default_factory=threading.Event)
    begun_s: float = 0.0  # time.monotonic() when a call began it
    error: Exception | None = None


class WholeProgram:
    """Called with the list of a graph's arguments. Threads may share it.

    states: "new", "searching", "forked" (the search is the parent process's; the
    next call looks for its results), "ready" (kernels are in use), "pytorch" (Inductor's
    code computes; `reason` says why)."""

    def __init__(
        self,
        request: Request,
        incumbent: Compiled,
        options: Options,
        improve: "Callable[[WholeProgram], threading.Event]",
    ) -> None:
        """`improve` begins the search for a program in the background, and gives the
        event of its end."""
        global _number
        self.request = request
        self.incumbent = incumbent
        self.options = options
        #: What computes calls now.
        self.function: Compiled = incumbent
        #: Whether generated kernels are in it.
        self.has_kernels = False
        self.state = "new"
        self.reason = ""
        self.summary = ""
        #: What explain() says of CUDA graphs.
        self.replay = INDUCTOR_GRAPHS if request.uses_cuda_graphs() else ""
        self.calls = 0
        self.calls_with_kernels = 0
        #: The regions by what they may gain; empty until the first profile.
        self.candidates: list[Candidate] = []
        #: Seconds of one call in the first profile; 0 before it.
        self.incumbent_s = 0.0
        #: How many times as long the incumbent takes as what computes now.
        self.speedup = 1.0
        self._improve = improve
        self._step: Step | None = None
        self._changed = threading.Condition()
        self._lock = threading.Lock()
        self._using = threading.Lock()
        #: Whether an inserted kernel failed: none is used any more.
        self.has_failed = False
        _number += 1
        self.number = _number
        _programs.add(self)

    @property
    def role(self) -> str:
        """ "inference", "forward" or "backward"."""
        return self.request.role

    def __call__(self, arguments: list[Any]) -> Any:
        self.calls += 1
        if self._step is not None or self.state in ("new", "forked"):
            self._attend(arguments)
        self.calls_with_kernels += self.has_kernels
        return self.function(arguments)

    def _attend(self, arguments: list[Any]) -> None:
        """Begins the search, or does what waits for a call; not while the program
        records calls, or traces them."""
        if (
            is_disabled()
            or select_implementation.is_recording(arguments)
            or any(isinstance(argument, FakeTensor) for argument in arguments)
        ):
            return
        if not self._lock.acquire(blocking=False):
            return  # another thread's call does it
        try:
            if self.state in ("new", "forked"):
                self.state, self.reason = "searching", ""
                ended = self._improve(self)
                if self.options.wait:
                    self._wait(ended, arguments)
            elif self._step is not None:
                self._do(self._step, arguments)
        except Exception as error:
            log.info("a call's work failed: %s", told(error))
        finally:
            self._lock.release()

    def _wait(self, ended: threading.Event, arguments: list[Any]) -> None:
        """Does the steps as they come, until the search is over."""
        until = time.monotonic() + search.limit_s(self.options) + search.END_S
        while not ended.is_set() and time.monotonic() < until:
            with self._changed:
                if self._step is None and not ended.is_set():
                    self._changed.wait(0.2)
            if self._step is not None:
                self._do(self._step, arguments)

    def _do(self, step: Step, arguments: list[Any]) -> None:
        step.begun_s = time.monotonic()
        try:
            # What a call computes here needs no gradients, and nobody watches it.
            with torch.no_grad(), _disable_current_modes():
                step.work(list(arguments))
        except Exception as error:
            step.error = error
        finally:
            self._step = None
            step.done.set()

    def awaits_call(self) -> bool:
        """Whether the search needs a call's arguments to go on."""
        return self._step is not None

    def ask(self, step: Step) -> None:
        """Has the next call do it."""
        with self._changed:
            self._step = step
            self._changed.notify_all()

    def notify(self) -> None:
        """Wakes a call that waits for the search."""
        with self._changed:
            self._changed.notify_all()

    def use(self, function: Compiled, has_kernels: bool = False) -> None:
        """From now on calls are this function's; not if it has kernels and some failed."""
        with self._using:
            if not (has_kernels and self.has_failed):
                self.function, self.has_kernels = function, has_kernels

    def give_up(self, reason: str) -> None:
        """The incumbent computes from now on: inserted kernels failed."""
        self.has_failed = True
        self.use(self.incumbent)
        self.state, self.reason = "pytorch", reason
        self.speedup = 1.0

    def after_fork(self) -> None:
        """In a child process, which has none of the threads that were busy."""
        self._lock, self._changed = threading.Lock(), threading.Condition()
        self._using = threading.Lock()
        self._step = None
        if self.state == "searching":
            self.state = "forked"
            self.reason = (
                "the process was forked while its parent searched: the "
                "next call looks for what the parent found"
            )


def _after_fork() -> None:
    for program in all_programs():
        program.after_fork()


os.register_at_fork(after_in_child=_after_fork)
