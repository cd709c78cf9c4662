"""The sign of zero: a kernel returns -0.0 where eager does. 1 / x shows the sign."""

from __future__ import annotations

import unittest
from collections.abc import Callable

# Before torch, which may look for Triton.
import triton_kernels  # noqa: F401

import torch
from torch.nn import functional

import opinfo_cases

NUMBERS = (
    0.0,
    -0.0,
    0.5,
    -0.5,
    -0.3,
    6.0,
    -6.0,
    float("inf"),
    -float("inf"),
    float("nan"),
    1e-40,
    -1e-40,
)
Function = Callable[[torch.Tensor], torch.Tensor]
#: The same in eager on every device.
EVERYWHERE: dict[str, Function] = {
    "neg": torch.neg,
    "abs": lambda x: -x.abs(),
    "round": torch.round,
    "trunc": torch.trunc,
    "ceil": torch.ceil,
    "sign": torch.sign,
    "tanh": torch.tanh,
    "tanhshrink": functional.tanhshrink,
    "expm1": torch.expm1,
    "log1p": torch.log1p,
    "elu": functional.elu,
    "selu": functional.selu,
    "hardshrink": functional.hardshrink,
    "leaky_relu": functional.leaky_relu,
    "hardswish": functional.hardswish,
    "threshold": lambda x: functional.threshold(x, 0.0, 0.0),
    "pow": lambda x: torch.pow(x, torch.full_like(x, 3.0)),
    "pow of -1": lambda x: torch.pow(x, torch.full_like(x, -1.0)),
    "where": lambda x: torch.where(x > 0, x, -0.0),
    "product": lambda x: x * -0.0,
}
#: Eager keeps -0.0 on a processor. A GPU's maximum returns 0.0, and Triton's
#: interpreter returns either. Softshrink, maximum and minimum are left out: on a
#: processor, eager's vectorized loop returns another sign than its remainder loop.
PROCESSOR: dict[str, Function] = {
    "relu": functional.relu,
    "relu6": functional.relu6,
    "relu6 of neg": lambda x: functional.relu6(-x),
    "hardtanh": lambda x: functional.hardtanh(x, 0.0, 1.0),
    "clamp": lambda x: x.clamp(0.0, 1.0),
    "clamp from below": lambda x: x.clamp(min=0),
    "clamp from above": lambda x: x.clamp(max=0),
    "clamp to -0.0": lambda x: x.clamp(-0.0, -0.0),
    "neg of relu": lambda x: -functional.relu(x),
}


def cases(functions: dict[str, Function], dtype: torch.dtype) -> list[opinfo_cases.Case]:
    x = torch.tensor(NUMBERS, dtype=dtype).repeat(3, 1)

    def shown(function: Function) -> Callable[[torch.Tensor], list]:
        return lambda x: [1 / function(x)]

    return [opinfo_cases.Case(name, shown(function), (x,)) for name, function in functions.items()]


class SignsOfZero(unittest.TestCase):
    def judge(self, target: str, found: list[opinfo_cases.Case]) -> None:
        outcomes = opinfo_cases.outcomes(opinfo_cases.variant_of(target), found, batch=64)
        for name, outcome, reason in outcomes:
            with self.subTest(target=target, case=name):
                self.assertEqual(outcome, "lowered", reason)

    def test_on_the_processor(self) -> None:
        for dtype in (torch.float32, torch.float64):
            self.judge("cpu", cases(EVERYWHERE | PROCESSOR, dtype))

    def test_in_triton(self) -> None:
        self.judge("triton", cases(EVERYWHERE, torch.float32))

    def test_in_cuda(self) -> None:
        self.judge("cuda", cases(EVERYWHERE, torch.float32))


if __name__ == "__main__":
    unittest.main()
