"""Reductions of constants and of positions in each type. A kernel loads nothing, so its
reduction gets a number or an index instead of a loaded block."""

from __future__ import annotations

import unittest
from collections.abc import Callable

# Before torch, which may look for Triton.
import triton_kernels  # noqa: F401

import torch

import opinfo_cases

SHAPE = (4, 8)
CONSTANTS: dict[str, Callable[[], torch.Tensor]] = {
    "bool": lambda: torch.full(SHAPE, True),
    "int32": lambda: torch.full(SHAPE, 3, dtype=torch.int32),
    "int64": lambda: torch.full(SHAPE, 3),
    "float32": lambda: torch.full(SHAPE, 1.5),
    "float64": lambda: torch.full(SHAPE, 1.5, dtype=torch.float64),
    "nan": lambda: torch.full(SHAPE, float("nan")),
    "places": lambda: torch.arange(32).view(SHAPE),
    "int32 places": lambda: torch.arange(32, dtype=torch.int32).view(SHAPE),
    "int32's last places": lambda: torch.arange(2**31 - 33, 2**31 - 1, dtype=torch.int32).view(
        SHAPE
    ),
}
REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda t: t.sum(1, keepdim=True),
    "prod": lambda t: t.prod(1, keepdim=True),  # beyond 32 bits of places
    "amax": lambda t: t.amax(1, keepdim=True),
    "amin of all": lambda t: t.amin(),
    "any": lambda t: t.any(0),
    "argmax": lambda t: t.argmax(0),
    "cumprod": lambda t: t.cumprod(1),
}


def cases() -> list[opinfo_cases.Case]:
    found = []
    for name, make in CONSTANTS.items():
        for reduction, reduce in REDUCTIONS.items():

            def function(
                x: torch.Tensor, make: Callable = make, reduce: Callable = reduce
            ) -> list[torch.Tensor]:
                value = reduce(make())
                return [value, value + x]

            try:
                function(torch.ones(SHAPE))
            except (RuntimeError, NotImplementedError):
                continue  # argmax of bool
            found.append(
                opinfo_cases.Case(f"{reduction} of {name}", function, (torch.randn(SHAPE),))
            )
    return found


class ConstantReductions(unittest.TestCase):
    def judge(self, target: str) -> None:
        found = opinfo_cases.outcomes(opinfo_cases.variant_of(target), cases(), batch=64)
        for name, outcome, reason in found:
            with self.subTest(target=target, case=name):
                self.assertEqual(outcome, "lowered", reason)

    def test_on_the_processor(self) -> None:
        self.judge("cpu")

    def test_in_triton(self) -> None:
        self.judge("triton")

    def test_in_cuda(self) -> None:
        self.judge("cuda")


if __name__ == "__main__":
    unittest.main()
