"""Other numbers among forward()'s arguments than those of get_inputs().

A kernel that wrote such a number down, instead of reading it, still gives the earlier
answer. Model decides what another number may be: one that it does not take, or that gives
results of another form, is not tried.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree

from weft.expect import compare
from weft.expect.inputs import STRICT_OPERATORS
from weft.problem.widen import FLOATING
from weft.expect.summed_terms import TermsTrace

if TYPE_CHECKING:
    from weft.judge.model_case import ModelCase
    from weft.judge.whole_model import WholeModel

#: So many arguments are looked at, each alone; of more, whichever the seed says.
NUMBERS_MAX = 6
#: No further one is begun after this much time in the reference.
BUDGET_S = 30.0
#: On a device these end the process' use of it, too: what is out of range is a
#: place of something.
LOOKUPS = (
    "bincount",
    "embedding",
    "gather",
    "index",
    "nll_loss",
    "one_hot",
    "put",
    "repeat_interleave",
    "scatter",
    "take",
    "unpool",
)


@dataclass(frozen=True)
class Number:
    """One leaf of what get_inputs() gives: a number or a flag."""

    leaf: int
    name: str  # "argument 2", "argument 2['scale']"
    value: bool | int | float


class Risky(Exception):
    """Model calls what could end this process' use of its device."""


class CarefulTrace(TermsTrace):
    """One that lets no call be made whose values may be out of range."""

    def on_call(
        self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if any(word in str(function) for word in (*STRICT_OPERATORS, *LOOKUPS)):
            raise Risky(str(function))
        return super().on_call(function, args, kwargs)


def among(arguments: list[Any]) -> list[Number]:
    """The numbers and flags in that list of arguments; None and texts are no
    numbers."""
    leaves, _ = pytree.tree_flatten_with_path(arguments)
    return [
        Number(i, f"argument {_place(path)}{pytree.keystr(path[1:])}", leaf)
        for i, (path, leaf) in enumerate(leaves)
        if isinstance(leaf, (bool, int, float))
    ]


def _place(path: pytree.KeyPath) -> int:
    argument = path[0]
    assert isinstance(argument, pytree.SequenceKey)
    return argument.idx + 1


def others(value: bool | int | float) -> Sequence[bool | int | float]:
    """Values to try for it, the likeliest to be taken first. All are of its
    sign: an epsilon stays positive. From 0 to 1 they stay there: it may be a
    probability. The second is for what the first does not change: of an
    epsilon only a large one shows, and of a last dimension only the one before
    is there."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1] if value else [1]
    sign = math.copysign(1.0, value)
    if not math.isfinite(value):
        return [sign]
    further = (value + sign) / 2 if abs(value) < 1 else value + sign
    # Of nothing three quarters are nothing, and a vast one is no further.
    return [other for other in (0.75 * value, further) if other != value]


def cases(
    whole: WholeModel, first: ModelCase | None
) -> Iterator[tuple[Number, bool | int | float, ModelCase]]:
    """(Number, its other value, what Model makes of that), one at a time.
    first: the case of get_inputs()'s own numbers, or None if it is too large to
    be kept."""
    generator = torch.Generator().manual_seed(whole.seed + 2)
    order = torch.randperm(len(whole.numbers), generator=generator).tolist()
    lock = whole.device.lock  # waiting for others is no work of the reference
    until = time.monotonic() - lock.waited_s + BUDGET_S
    for place in order[:NUMBERS_MAX]:
        if time.monotonic() - lock.waited_s > until:
            return
        number = whole.numbers[place]
        found = _found(whole, number, first)
        if found is None:
            continue
        if whole.is_large:  # the candidate needs what making it took
            whole.device.give_back()
        yield number, *found
        del found  # before the next is made: it may fill half a device


def _found(
    whole: WholeModel, number: Number, first: ModelCase | None
) -> tuple[bool | int | float, ModelCase] | None:
    """(value, case) of the first value by which the answer of before is wrong,
    else of the first that Model takes; None if it takes none."""
    found = None
    for value in others(number.value):
        case = _case(whole, number, value)
        if case is None or (first is not None and not _is_finite(case, first)):
            continue
        if first is None or _differs(case, first):
            return value, case
        found = found or (value, case)
    return found


def _case(whole: WholeModel, number: Number, value: bool | int | float) -> ModelCase | None:
    """None, if Model does not take that value."""
    whole.device.give_back_much()
    data = whole.data("given", whole.device.generator(whole.seed))
    distribution = f"{value!r} for {number.name}, which is {number.value!r} in get_inputs()"
    try:
        other = whole.with_number(number.leaf, value)
        trace = CarefulTrace() if whole.device.is_cuda else TermsTrace()
        if not other.fits(data, trace):
            return None
        return other.expect(distribution, data)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # whatever Model raises for what it does not take
        return None


def _is_finite(case: ModelCase, first: ModelCase) -> bool:
    """Whether its answer is, where that of before is: nan tells little."""
    return all(
        bool((now.framework.isfinite() | ~was.framework.isfinite()).all())
        for now, was in zip(case.outputs, first.outputs)
        if now.framework.dtype in FLOATING
    )


def _differs(case: ModelCase, first: ModelCase) -> bool:
    before = [expectation.framework for expectation in first.expectations]
    return compare.first_reason(before, case.expectations) != ""
