"""Expectations of the results of one run of a Model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from weft.expect import compare
from weft.expect.summed_terms import UNTOLD
from weft.judge.model_case import KEYS


def against(
    leaves: list[torch.Tensor],
    state: list[torch.Tensor],
    state_names: Sequence[str],
    narrow: dict[str, Any],
    wide: dict[str, Any] | None,
    length: int,
) -> list[list[compare.Expected]]:
    """For each kind of what a run leaves the expectations of Model's results `narrow`,
    by float64's, `wide`, which go. `length`: terms of the longest sum behind them."""
    made = []
    for key in KEYS:
        results = narrow[key]
        truths = wide.pop(key) if wide else [None] * len(results)
        before: list[Any] = {"inputs_after": leaves, "state_after": state}.get(
            key, [None] * len(results)
        )
        names = state_names if key == "state_after" else _numbered(key, len(results))
        made.append(
            [
                compare.untouched(name, x)
                if x is was
                else compare.expect(name, x, truth, _length_for(x, truth, length))
                for name, x, was, truth in zip(names, results, before, truths)
            ]
        )
    return made


def allow(made: list[list[compare.Expected]], lossy: dict[str, Any]) -> None:
    """Widens the expectations by what these results lost."""
    for key, group in zip(KEYS, made):
        for one, result in zip(group, lossy[key]):
            compare.allow(one, result)


def _numbered(key: str, count: int) -> list[str]:
    return [f"{key.split('_')[0].rstrip('s')}{i}" for i in range(count)]


def _length_for(result: torch.Tensor, truth: torch.Tensor | None, length: int) -> int:
    """The longest sum that is behind a result; the cap, where no answer in
    a wider type says what rounding makes of ill-conditioned steps."""
    is_wider = (
        truth is not None
        and truth.shape == result.shape
        and truth.dtype.itemsize > result.dtype.itemsize
    )
    return length if is_wider else UNTOLD
