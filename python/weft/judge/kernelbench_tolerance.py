"""The rule that KernelBench's own evaluator applies: near to eager.

Seeds, draws and tolerances are those of kernelbench/eval.py. Weights are as constructed
after seed 42. The seeds of five trials are drawn after the same seed, and get_inputs() runs
after each of them, on the processor. Every element of the result must be within 1e-4 + 1e-4
|x| of eager's, whatever eager's own error is.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from weft.problem.result_form import ResultForm
from weft.judge.model_case import RunData
from weft.problem.module_state import HeldState
from weft.problem.problem import SEED, Problem, build_model, make_inputs

if TYPE_CHECKING:
    from weft.judge.whole_model import WholeModel

TRIALS = 5
#: Absolute, and relative to the candidate's element.
TOLERANCE = 1e-4
HALF_TOLERANCE = 1e-2
#: Elements at once.
CHUNK = 1 << 26

NEAR, FAR, FAILED = "within", "outside", "failed"


class NotJudged(Exception):
    """KernelBench's evaluator would refuse Model itself; the text says why."""


@dataclass
class NearEager:
    """KernelBenchVerdict of messages/effects.hpp."""

    outcome: str = ""
    reason: str = ""
    draws: int = 0
    max_difference: float = 0.0
    tolerance: float = TOLERANCE
    compiled: str = ""
    compiled_reason: str = ""


@dataclass
class Trial:
    """Inputs and state of one of its trials, and what eager made of them."""

    data: RunData
    form: ResultForm
    outputs: list[torch.Tensor]  #: tensors


@dataclass
class Drawn:
    """What the first trial begins with, on the processor."""

    state: dict[str, torch.Tensor]  #: tensors as they are constructed, by their names
    given: list[Any]
    seconds: float  #: that it took


def draw(problem: Problem) -> Drawn:
    """The same that `trials` would draw, for who must not wait for it then."""
    start = time.monotonic()
    state = _built(problem)
    given = make_inputs(problem, trial_seeds()[0])
    return Drawn(state, given, time.monotonic() - start)


def trial_seeds(count: int = TRIALS) -> list[int]:
    torch.manual_seed(SEED)
    return [int(torch.randint(0, 2**32 - 1, (1,))) for _ in range(count)]


def tolerance_of(whole: WholeModel) -> float:
    """Of its inputs' type; of its parameters', where it has no such input."""
    dtypes = [t.dtype for t in whole.tensors if t.dtype.is_floating_point]
    dtypes += [t.dtype for _, t in whole.state if t.dtype.is_floating_point]
    is_half = bool(dtypes) and dtypes[0].itemsize == 2
    return HALF_TOLERANCE if is_half else TOLERANCE


def trials(whole: WholeModel, drawn: Drawn | None = None) -> Iterator[Trial]:
    """Each Trial of the WholeModel, one after the other; NotJudged. drawn: the
    first's, where that is there."""
    state = _constructed(whole, drawn)
    for number, seed in enumerate(trial_seeds()):
        data = RunData(seed, _leaves(whole, seed, drawn), state)
        drawn = None
        if number == 0:
            _check_cast(whole, data)
        made = whole.run_eager(data)
        if made.drew and number == 0:
            _check_draws(whole, data, made.outputs)
        yield Trial(data, made.form, made.outputs)
        state = made.state_after  # its modules live through all trials
        del made, data


def _built(problem: Problem) -> dict[str, torch.Tensor]:
    return dict(HeldState(build_model(problem)).named)


def _constructed(whole: WholeModel, drawn: Drawn | None) -> list[torch.Tensor]:
    """Model's state as it is constructed on the processor."""
    if drawn is not None:
        made = drawn.state
    elif not whole.device.is_cuda:
        return whole.initial
    else:
        with whole.device.lock.released():
            made = _built(whole.problem)
    return [
        made[name].detach().to(whole.device.torch, tensor.dtype).contiguous()
        for name, tensor in whole.state
    ]


def _leaves(whole: WholeModel, seed: int, drawn: Drawn | None) -> list[torch.Tensor]:
    if drawn is not None:
        given = drawn.given
    else:
        with whole.device.lock.released():  # a large draw takes seconds
            given = make_inputs(whole.problem, seed)
    leaves = [
        t.detach().to(whole.device.torch).contiguous()
        for t in torch.utils._pytree.tree_leaves(given)
        if isinstance(t, torch.Tensor)
    ]
    form = [(t.dtype, t.shape) for t in leaves]
    if form != [(t.dtype, t.shape) for t in whole.tensors]:
        raise NotJudged("get_inputs() gives tensors of another form each time")
    return leaves


def _check_cast(whole: WholeModel, data: RunData) -> None:
    """Every input is cast to the floating type, and Model must take that."""
    if all(t.is_floating_point() for t in data.leaves):
        return
    with _refusing("it casts every input to a floating type, which Model does not take"):
        whole.run_eager(replace(data, leaves=[t.float() for t in data.leaves]))


def _check_draws(whole: WholeModel, data: RunData, outputs: list[torch.Tensor]) -> None:
    """Nothing is seeded between eager's forward(), which has just made these outputs,
    and the candidate's."""
    again = whole.run_eager(replace(data, seed=whole.generators()))
    for one, other in zip(outputs, again.outputs):
        if difference(one, other, tolerance_of(whole))[1]:
            raise NotJudged(
                "Model draws random numbers, and it seeds nothing "
                "between Model's forward() and the candidate's"
            )


@contextlib.contextmanager
def _refusing(why: str) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except Exception:  # whatever forward() raises
        raise NotJudged(why) from None


def difference(eager: torch.Tensor, other: torch.Tensor, tolerance: float) -> tuple[float, int]:
    """(the largest difference, how many elements differ by too much), as
    torch.allclose(eager, other) counts."""
    worst, wrong = 0.0, 0
    flat = eager.reshape(-1), other.reshape(-1)
    for start in range(0, flat[0].numel(), CHUNK):
        one, two = (t[start : start + CHUNK] for t in flat)
        if one.dtype == torch.bool:
            one, two = one.view(torch.uint8), two.view(torch.uint8)
        wrong += one.numel() - int(torch.isclose(one, two, rtol=tolerance, atol=tolerance).sum())
        gap = (one.double() - two.double()).abs_()
        gap = gap[torch.isfinite(gap)]
        worst = max(worst, float(gap.max()) if gap.numel() else 0.0)
    return worst, wrong


def hold(outputs: Iterable[torch.Tensor], trial: Trial, found: NearEager) -> str:
    """Why these are not near to that trial's, or ""; keeps in the NearEager
    `found` how far they are."""
    for number, (eager, other) in enumerate(zip(trial.outputs, outputs)):
        if eager.shape != other.shape or eager.dtype != other.dtype:
            return f"output {number} is {other.dtype} {list(other.shape)}"
        worst, wrong = difference(eager, other, found.tolerance)
        found.max_difference = max(found.max_difference, worst)
        if wrong:
            return (
                f"{wrong} of {eager.numel()} elements of output {number} "
                f"are not within {found.tolerance:g} + {found.tolerance:g} "
                f"|x| of eager's: they differ by up to {worst:.3g}"
            )
    return ""
