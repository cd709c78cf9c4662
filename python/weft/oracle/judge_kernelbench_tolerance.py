"""Holds a composed module, and torch.compile's, against eager by the rule of
kernelbench_tolerance.py. One draw serves both, since drawing on the processor takes
longest."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from weft.judge import kernelbench_tolerance
from weft.judge.kernelbench_tolerance import FAILED, FAR, NEAR, NearEager, NotJudged, Trial
from weft.device.trace_spans import lap
from weft.judge import verify_model
from weft.problem.problem import is_out_of_memory, short
from weft.candidate.slot import CandidateFailed
from weft.judge.limits import Limits
from weft.timing.timing import Lent, TimingFailed

if TYPE_CHECKING:
    from weft.device.arena import Arena
    from weft.device.device_arena import DeviceArena
    from weft.judge.whole_model import WholeModel
    from weft.oracle.oracle import Oracle

#: KernelBench draws on the processor, which takes many seconds for gigabytes: no
#: further draw is begun after so many. `draws` says how many there were.
DRAWS_MAX_S = 10.0

_STEPS = ["load", "run", "export"]


def judge(
    oracle: Oracle, whole: WholeModel, job: dict[str, Any], limits: Limits, request: dict[str, Any]
) -> dict[str, Any]:
    """The NearEager of the candidate `job`, as a dictionary. torch.compile's
    is looked at where the request names that baseline. The first draw is the
    oracle's, where that made it before there was room on the device."""
    found = NearEager(tolerance=kernelbench_tolerance.tolerance_of(whole))
    parties: list[_Party] = [_Candidate(oracle, whole, job, limits, found)]
    if "compile" in request.get("baselines", ()):
        parties.append(_Compiled(oracle, whole, request, found))
    try:
        for party in reversed(parties):  # the compiler's arena serves both
            party.begin(parties[-1])
        with lap("near eager"):
            last_s = time.monotonic() + DRAWS_MAX_S
            if oracle.drawn is not None:
                last_s -= oracle.drawn.seconds
            trials = kernelbench_tolerance.trials(whole, oracle.drawn)
            oracle.drawn = None  # it goes with its trial
            for number, trial in enumerate(trials, 1):
                found.draws = number
                for party in parties:
                    party.hold(trial, number)
                if not any(party.is_open for party in parties):
                    break
                del trial
                whole.device.give_back_much()
                if time.monotonic() > last_s:
                    break
        for party in parties:
            party.passed()
    except NotJudged as why:
        end_all(parties, f"KernelBench's evaluator refuses any module here: {why}")
    except Exception as error:
        # It is tried once more with the device's memory for itself; a module that
        # is right is not lost for want of the second rule's.
        if not (is_out_of_memory(error) and whole.device.may_be_short):
            raise
        end_all(parties, f"there is no room for it: {short(error)}")
    finally:
        for party in parties:
            party.close()
    return dataclasses.asdict(found)


def end_all(parties: Iterable[_Party], reason: str) -> None:
    """Without an answer, but those that were far before."""
    for party in parties:
        if party.is_open:
            party.end(FAILED, reason)


class _Party:
    """Whose results are held; `is_open` until one is not near."""

    is_open = True

    def __init__(self, whole: WholeModel, found: NearEager) -> None:
        self.whole, self.found = whole, found

    def begin(self, owner: _Party) -> None:
        """`owner` of the arena."""
        raise NotImplementedError

    def call(self, trial: Trial) -> dict[str, Any]:
        raise NotImplementedError

    def measured(self) -> NearEager:
        """Where it is kept how far its results are."""
        raise NotImplementedError

    def end(self, outcome: str, reason: str) -> None:
        raise NotImplementedError

    def arena(self) -> Arena | DeviceArena:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def hold(self, trial: Trial, number: int) -> None:
        if not self.is_open:
            return
        self.whole.write(trial.data)
        try:
            answer = self.call(trial)
        except CandidateFailed as ended:
            lacks = ended.kind == "out_of_memory"
            device = self.whole.device
            if lacks and device.is_cuda and not device.may_be_short:
                raise torch.OutOfMemoryError(ended.reason) from None
            return self.end(FAILED if lacks else FAR, ended.reason)
        reason = verify_model.layout_difference(answer, trial.form)
        if not reason:
            views = self.whole.buffers.output_views[: len(trial.outputs)]
            reason = kernelbench_tolerance.hold(views, trial, self.measured())
        if reason:
            self.end(FAR, f"draw {number}: {reason}")
        self.rest()

    def rest(self) -> None:
        """After each call: large things go."""

    def passed(self) -> None:
        if self.is_open:
            self.end(NEAR, "")


class _Candidate(_Party):
    def __init__(
        self,
        oracle: Oracle,
        whole: WholeModel,
        job: dict[str, Any],
        limits: Limits,
        found: NearEager,
    ) -> None:
        super().__init__(whole, found)
        self.oracle, self.job, self.limits = oracle, job, limits

    def begin(self, owner: _Party) -> None:
        """`owner` of the arena."""
        arena = (
            owner.arena() if owner is not self else self.oracle.keeper.of(self.whole.buffers.end)
        )
        arena.clear()
        self.whole.buffers.bind(arena)
        try:
            verify_model.begin(self.oracle.slot, self.whole, self.job, arena, self.limits)
        except CandidateFailed as ended:
            self.end(FAR, ended.reason)

    def call(self, trial: Trial) -> dict[str, Any]:
        return self.oracle.slot.call(
            self.limits.wall_ms, steps=_STEPS, seed=trial.data.seed, parameters=True, reuse=False
        )[0]

    def measured(self) -> NearEager:
        return self.found

    def end(self, outcome: str, reason: str) -> None:
        self.is_open = False
        self.found.outcome, self.found.reason = outcome, reason

    def close(self) -> None:
        self.oracle.slot.dismiss()


class _Compiled(_Party):
    def __init__(
        self, oracle: Oracle, whole: WholeModel, request: dict[str, Any], found: NearEager
    ) -> None:
        super().__init__(whole, found)
        self.oracle, self.request = oracle, request
        self.lender: Lent | None = None

    def begin(self, owner: _Party) -> None:
        timer = self.oracle.model_timer
        try:
            self.lender = timer.lend_compiled(
                *self.oracle.model_bench(self.whole, self.request), "compile"
            )
        except TimingFailed as why:
            return self.end(FAILED, str(why))
        if self.lender.error:
            self.end(FAILED, self.lender.error)

    def arena(self) -> Arena | DeviceArena:
        if self.lender is None:  # its process broke
            return self.oracle.keeper.of(self.whole.buffers.end)
        return self.lender.arena

    def call(self, trial: Trial) -> dict[str, Any]:
        assert self.lender is not None
        return self.lender.call(trial.data.seed, _STEPS)

    def rest(self) -> None:
        if self.whole.is_large and self.is_open and self.lender is not None:
            self.lender.rest()

    def measured(self) -> NearEager:
        return NearEager(tolerance=self.found.tolerance)

    def end(self, outcome: str, reason: str) -> None:
        self.is_open = False
        self.found.compiled, self.found.compiled_reason = outcome, reason

    def close(self) -> None:
        if self.lender is not None:
            self.lender.close()
