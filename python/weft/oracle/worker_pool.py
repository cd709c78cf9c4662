"""The processes that do an oracle's jobs.

Nothing here imports PyTorch, which takes seconds to load. So these processes can start
loading it before the oracle does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from weft.candidate.slot import Slot, SlotBroken
from weft.candidate.zygote_process import Starter, start_zygote


class Places:
    """A slot under the sandbox for candidates, and slots for the framework's
    side of a timing: of subgraphs and of the whole model."""

    def __init__(
        self,
        prefix: Sequence[str],
        threads: int,
        environment: Mapping[str, str],
        precision: str = "framework",
        device: str = "cpu",
        before_launch: Callable[[], object] | None = None,
        start: Starter = start_zygote,
    ) -> None:
        """before_launch, start: Slot's, of the candidates' slot."""

        def slot(
            sandbox: Sequence[str],
            before_launch: Callable[[], object] | None = None,
            start: Starter = start_zygote,
        ) -> Slot:
            return Slot(sandbox, threads, environment, precision, device, before_launch, start)

        self.candidate = slot(prefix, before_launch, start)
        self.baseline = slot([])
        #: On a device a model is compiled ahead, and its baseline outlives
        #: those of the subgraphs; on the host that would cost more than it
        #: saves.
        self.model_baseline = slot([]) if device != "cpu" else self.baseline
        #: Those that a first request needs. On the host baselines would
        #: disturb what is timed if they began unasked.
        self._first = [self.candidate]
        if device != "cpu":
            self._first += [self.model_baseline, self.baseline]

    def launch(self, with_baseline: bool = False) -> None:
        """What the first request will need, begun ahead of it; with_baseline: the
        first timing, too."""
        for slot in self._first + [self.baseline] * with_baseline:
            with contextlib.suppress(SlotBroken):  # the first job tells
                slot.launch()
