"""More draws of eager's own rounding, if a result is refused by little.

The error of one run of eager is one draw. If gradients cancel in all but a few digits, a
handful of roundings make up all of it. Another draw, or a correct candidate's, may be
twenty times as large. So before a result near a bound is refused, the reference runs on
nearby inputs, in float64 too. A candidate is compared with its worst error of all draws.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from weft.expect import compare

if TYPE_CHECKING:
    import torch

#: Who exceeds a bound by more is wrong whatever was drawn.
NEAR = 16.0
#: So many further draws (docs/explanation/verification.md has what they were measured by), of
#: inputs times 1 - k / STEPS: what is equal, zero, or within [0, 1] stays so, and
#: bfloat16 has these factors exactly.
COUNT = 8
STEPS = 64
#: No further draw is begun after so long.
SECONDS_MAX = 20.0


def scaled(tensors: Iterable[torch.Tensor], factor: float) -> list[torch.Tensor]:
    """Those tensors, the floating-point ones times that factor."""
    return [t * factor if t.is_floating_point() else t for t in tensors]


class PerturbedRuns:
    """Those of one case, made when a result is first refused by little."""

    def __init__(
        self,
        expectations: list[compare.Expected],
        expect: Callable[[float], list[compare.Expected]] | None = None,
    ) -> None:
        """`expect(factor)`: what is expected of the case's inputs times that
        factor, in the order of `expectations`; None: there are no redraws."""
        self._expectations = expectations
        self._expect = expect

    def compare(self, got: torch.Tensor, made: compare.Expected) -> compare.Finding:
        """compare.compare(), by all draws where the first one refuses it."""
        found = compare.compare(got, made)
        if 0 < found.beyond < NEAR and made.wide is not None and self._draw():
            return compare.compare(got, made)
        return found

    def first_reason(self, views: Iterable[torch.Tensor]) -> str:
        """Why one of the results is not what is expected, or ""."""
        found = (self.compare(x, made).reason for x, made in zip(views, self._expectations))
        return next(filter(None, found), "")

    def _draw(self) -> bool:
        """Whether there is a new draw."""
        expect, self._expect = self._expect, None
        if expect is None or any(expectation.is_redrawn for expectation in self._expectations):
            return False
        for one in self._expectations:  # a subgraph's outlive this candidate
            one.is_redrawn = True
        begin, made = time.monotonic(), 0
        for number in range(1, COUNT + 1):
            if time.monotonic() - begin > SECONDS_MAX:
                break
            try:
                drawn = expect(1 - number / STEPS)
            except Exception:  # no room for it, or outside Model's domain
                break
            for one, other in zip(self._expectations, drawn):
                compare.learn(one, other)
            made += 1
        return made > 0
