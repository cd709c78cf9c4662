"""Expectations of the results of one run of a Model."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch

from weft.expect import compare
from weft.expect.summed_terms import UNTOLD
from weft.judge.model_case import RunData, RunResults


def against(
    data: RunData,
    state_names: Sequence[str],
    narrow: RunResults,
    wide: RunResults | None,
    length: int,
) -> list[compare.Expected]:
    """The expectation for each tensor of Model's results `narrow`, by float64's, `wide`,
    which go. `length`: terms of the longest sum behind them."""
    truths = _truths(narrow, wide)
    names = _numbered("output", narrow.outputs) + _numbered("input", data.leaves)
    before = [None] * len(narrow.outputs) + data.leaves + data.state
    made = []
    for name, x, was in zip([*names, *state_names], narrow.tensors, before):
        truth = truths.popleft()
        if x is was:
            made.append(compare.untouched(name, x))
        else:
            made.append(compare.expect(name, x, truth, _length_for(x, truth, length)))
    return made


def _truths(narrow: RunResults, wide: RunResults | None) -> deque[torch.Tensor | None]:
    """One of float64's tensors for each of eager's, or None. If values decide how many
    outputs there are, outputs have none."""
    count = len(narrow.tensors)
    if wide is None:
        return deque([None] * count)
    outputs = len(wide.outputs)
    truths: deque[torch.Tensor | None] = deque(wide.take_tensors())
    if outputs != len(narrow.outputs):
        for _ in range(outputs):
            truths.popleft()
        truths.extendleft([None] * len(narrow.outputs))
    return truths


def _numbered(name: str, tensors: list[torch.Tensor]) -> list[str]:
    return [f"{name}{i}" for i in range(len(tensors))]


def _length_for(result: torch.Tensor, truth: torch.Tensor | None, length: int) -> int:
    """The longest sum that is behind a result; the cap, where no answer in
    a wider type says what rounding makes of ill-conditioned steps."""
    is_wider = (
        truth is not None
        and truth.shape == result.shape
        and truth.dtype.itemsize > result.dtype.itemsize
    )
    return length if is_wider else UNTOLD
