"""Controls: wrong outputs that the comparison of a subgraph's cases has to reject."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch

from weft.expect import compare


class Controls:
    """Compares wrong outputs with case after case. `rejected` says for each kind
    whether a case rejected it; None if it never applied.

    If a control passes in every case, the comparison cannot tell a kernel from an
    imposter.
    """

    def __init__(self) -> None:
        self.rejected: dict[str, bool | None] = {
            "zeros": None,
            "constant": None,
            "input": None,
            "stale": None,
            "noise": None,
        }
        self._before: list[torch.Tensor] | None = None

    def hold(
        self, views: list[torch.Tensor], wants: list[compare.Expected], is_finite: bool
    ) -> None:
        """`views`: the case's input tensors; `wants`: its expectations."""
        for name, outputs in _imposters(views, wants, self._before, is_finite):
            if self.rejected[name] is not True:
                self.rejected[name] = any(
                    compare.compare(make(), want).reason for make, want in zip(outputs, wants)
                )
        self._hold_noise(wants, is_finite)
        if is_finite:  # nan would reveal an imposter that repeats the last answer
            self._before = [want.framework for want in wants]

    def _hold_noise(self, wants: list[compare.Expected], is_finite: bool) -> None:
        """Compares noise as large as the output with the first case, which is the
        problem's own. If PyTorch itself errs by that much there, another case's
        rejection says nothing about the problem."""
        floating = [
            w
            for w in wants
            if w.framework.is_floating_point()
            and w.framework.isfinite().any()
            and (w.framework.any() or w.truth.any())
        ]
        if self.rejected["noise"] is None and is_finite and floating:
            # Each output must reject it: one cannot stand in for another.
            self.rejected["noise"] = all(
                compare.compare(_noisy(want), want).reason and not compare.is_lost(want)
                for want in floating
            )

    def rest(self) -> None:
        """Keeps no tensor of a case: the next one is compared with no earlier one."""
        self._before = None


def _imposters(
    views: list[torch.Tensor],
    wants: list[compare.Expected],
    before: list[torch.Tensor] | None,
    is_finite: bool,
) -> Iterator[tuple[str, list[Callable[[], torch.Tensor]]]]:
    """(control's name, a function for each output) for every control that applies.

    Cases with nan count only if nan does not reveal every imposter.
    """
    if is_finite or not any(w.framework.is_floating_point() for w in wants):
        yield "zeros", [partial(torch.zeros_like, w.framework) for w in wants]
        if before is not None:
            # The mean is another case's: of one element, the mean is the answer.
            yield "constant", [partial(_mean_of, x) for x in before]
            yield "stale", [partial(_same, x) for x in before]
    for view in views:
        fits = [view.shape == w.framework.shape and view.dtype == w.framework.dtype for w in wants]
        if any(fits):
            yield (
                "input",
                [partial(_same, view if fit else w.framework) for fit, w in zip(fits, wants)],
            )


def _noisy(want: compare.Expected) -> torch.Tensor:
    """The answer with the output's scale added and subtracted in turn."""
    made = want.framework.reshape(-1).clone()
    made[::2] += want.scale
    made[1::2] -= want.scale
    return made.reshape(want.framework.shape)


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _mean_of(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.dtype.is_floating_point:
        if tensor.numel() == 0:
            return tensor
        return torch.full_like(tensor, tensor.flatten().mode().values.item())
    mean = tensor.mean(dtype=torch.float64).item() if tensor.numel() else 0.0
    if not math.isfinite(mean):
        finite = tensor[torch.isfinite(tensor)]
        mean = finite.double().mean().item() if finite.numel() else 0.0
    return torch.full_like(tensor, mean)
