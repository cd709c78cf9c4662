"""The processes that do an oracle's jobs.

Nothing here imports PyTorch, which takes seconds to load. So these processes can start
loading it before the oracle does.
"""

from __future__ import annotations

import contextlib

from weft.candidate.slot import Slot, SlotBroken


class Places:
    """A slot under the sandbox for candidates, and slots for the framework's
    side of a timing: of subgraphs and of the whole model."""

    def __init__(self, candidate: Slot) -> None:
        on_device = candidate.device != "cpu"
        self.candidate = candidate
        self.baseline = candidate.outside_sandbox()
        #: On a device a model is compiled ahead, and its baseline outlives
        #: those of the subgraphs; on the host that would cost more than it
        #: saves.
        self.model_baseline = candidate.outside_sandbox() if on_device else self.baseline
        #: Those that a first request needs. On the host baselines would
        #: disturb what is timed if they began unasked.
        self._first = [self.candidate]
        if on_device:
            self._first += [self.model_baseline, self.baseline]

    def launch(self, with_baseline: bool = False) -> None:
        """What the first request will need, begun ahead of it; with_baseline: the
        first timing, too."""
        for slot in self._first + [self.baseline] * with_baseline:
            with contextlib.suppress(SlotBroken):  # the first job tells
                slot.launch()
