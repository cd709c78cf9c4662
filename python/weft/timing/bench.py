"""The interface of a bench, which Rounds (rounds.py) and Timer (timing.py) use, and how
it compares the results of a timed call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.expect import compare
from weft.expect.case import Case, without_tensors
from weft.expect.perturbed_runs import PerturbedRuns
from weft.timing.baseline_calls import ask_baseline

if TYPE_CHECKING:
    import random

    import torch

    from weft.candidate.slot import Slot
    from weft.device.arena import Arena
    from weft.device.device_arena import DeviceArena
    from weft.device.arena_keeper import ArenaKeeper
    from weft.expect.expectation_maker import ExpectationMaker
    from weft.judge.limits import Limits
    from weft.timing.untimed_work import Message, UntimedWork


class Bench:
    """Buffers, data and expectations of what is timed: a subgraph's or a model's.

    `calls`: how often one message runs the code. `warm_rounds`: how many rounds are
    not counted. `baseline_rested`: whether the baseline gave its memory up since it
    was last called. `has_rows`: whether `back_to_back` makes calls without a pause.
    `trusts_events`: whether no code of a candidate's runs in the process that reads a
    device's events.
    """

    calls: int
    warm_rounds: int
    baseline_rested: bool
    has_rows: bool
    trusts_events: bool
    is_large: bool
    #: Bytes of a call's results, and the fewest that a call reads and writes.
    bytes_written: int
    bytes_floor: int
    #: Timer's: what it was made for, {baseline: empty, or why it could not be
    #: compiled}, and the baseline that is being compiled.
    key: tuple[Any, ...]
    compile_errors: dict[str, str]
    compiling: str

    #: Makes what is expected of calls, and what it expected of the first that was
    #: compared, less the tensors.
    maker: ExpectationMaker[Any, Any, Any]
    like: Case[Any] | None = None
    #: The call that has the baseline give up its spare memory.
    rest_call: Mapping[str, Any]
    _baseline: Slot

    @property
    def lacks_float64(self) -> bool:
        """Whether there was no room for it."""
        raise NotImplementedError

    def why_wrong(
        self,
        distribution: str,
        data: Any,
        views: Sequence[torch.Tensor],
        form: Callable[[Any], str] = lambda case: "",
    ) -> str:
        """Why these results of that data are wrong, or "". Eager's answer alone is mostly
        enough: float64 takes longer than all the rest, and more memory. `form(case)`: how
        the results look other than the case's."""
        if self._is_near(data, views, form):
            return ""
        if self.is_large:
            ask_baseline(self._baseline, **self.rest_call)
            self.baseline_rested = True
        case = self.maker.expect(distribution, data)
        self.like = without_tensors(case)
        draws = PerturbedRuns(case.expectations, partial(self.maker.expect_scaled, case))
        reason = form(case) or draws.first_reason(views)
        if self.is_large:
            del case, draws
            self.maker.device.give_back()  # the baseline needs it again
        return reason

    def _is_near(
        self, data: Any, views: Sequence[torch.Tensor], form: Callable[[Any], str]
    ) -> bool:
        if self.like is None:
            return False
        try:
            case = self.maker.expect_near(data, self.like)
            return not (form(case) or compare.first_reason(views, case.expectations))
        except RuntimeError:
            # Out of memory, or what a library makes of that: there is more
            # once the baseline rests. Any other error will come again.
            return False

    @property
    def reads_rows(self) -> bool:
        """Whether a row whose results are read says something."""
        return False

    @property
    def arena(self) -> Arena | DeviceArena:
        raise NotImplementedError

    def set_up(
        self,
        keeper: ArenaKeeper,
        baseline: Slot,
        released: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Begins the baseline's job."""
        raise NotImplementedError

    def begin(self, slot: Slot, job: dict[str, Any], limits: Limits) -> None:
        """Begins the candidate's job."""
        raise NotImplementedError

    def begin_to_compile(self, baseline: Slot, name: str) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        """After calls on other data."""
        raise NotImplementedError

    def refresh(self, generator: torch.Generator, dice: random.Random) -> None:
        """Puts new data in place."""
        raise NotImplementedError

    def call_candidate(self, slot: Slot, wall_ms: int) -> tuple[dict[str, Any], float]:
        """One timed call."""
        raise NotImplementedError

    def call_empty(self, baseline: Slot, party: str) -> tuple[dict[str, Any], float]:
        """A call that does nothing."""
        raise NotImplementedError

    def call_baseline(self, baseline: Slot, party: str) -> tuple[dict[str, Any], float]:
        """One timed call, after `call_empty`, but on a device."""
        raise NotImplementedError

    def back_to_back(
        self, process: Slot, party: str, numbers: Sequence[int], reads: bool = False
    ) -> list[float]:
        """Seconds that rows of calls without a pause took, one row for each number."""
        raise NotImplementedError

    def untimed_work(self, timed: list[Message]) -> UntimedWork:
        raise NotImplementedError

    def examine(self, slot: Slot, limits: Limits, dice: random.Random) -> tuple[int, str]:
        """Compares what the candidate left: (calls compared, why one was wrong)."""
        raise NotImplementedError
