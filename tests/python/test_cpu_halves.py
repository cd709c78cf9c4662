"""Kernels for the CPU in float16 and bfloat16: every conversion rounds as eager's does, with
the processor's instructions and without, and operators are as exact as eager's.
"""

import math
import unittest

import torch
import torch.nn.functional as F

from cpu_kernels import CpuVariant
from kernel_cases import KernelCases, as_list, half_cases

#: Instruction sets that conversions use, the newest first.
NO_BF16 = ("avx512bf16",)
NO_CONVERSIONS = ("avx512bf16", "avx512f", "f16c")


def all_halves(dtype):
    return torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)


def floats_between_halves():
    """float32 numbers that are halves, next to them, and halfway between them: all first 16
    bits, each with last bits that round down, up, and to even."""
    high = torch.arange(-(2**15), 2**15, dtype=torch.int32) << 16
    low = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    return torch.cat([high | bits for bits in low]).view(torch.float32)


def conversion_cases():
    cases = []
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        floats = floats_between_halves()
        cases += [
            (f"to_{name}", lambda x, dtype=dtype: x.to(dtype), (floats,)),
            (f"to_{name}_odd", lambda x, dtype=dtype: x.to(dtype), (floats[3:-8],)),
            (f"through_{name}", lambda x, dtype=dtype: x.to(dtype).float(), (floats,)),
            (f"from_{name}", lambda x: x.float(), (all_halves(dtype),)),
            (
                f"both_of_{name}",
                lambda x, dtype=dtype: [x.to(dtype), x.to(dtype) * 2],
                (floats[7:40_000],),
            ),
        ]
    return cases


class Conversions(KernelCases, unittest.TestCase):
    groups = (conversion_cases,)
    variants = (
        CpuVariant("first", 0, 2, 64, 0, 1, "-O2"),
        CpuVariant("eight lanes", 0, 2, 32, 0, 1, "-O2"),
        CpuVariant("four lanes", 0, 2, 16, 0, 1, "-O2"),
        CpuVariant("plain bits", 0, 2, 64, 0, 1, "-O2", without=NO_BF16),
        CpuVariant("no instructions", 0, 2, 64, 0, 1, "-O2", without=NO_CONVERSIONS),
        CpuVariant("no AVX", 0, 2, 16, 0, 1, "-O2", without=(*NO_CONVERSIONS, "avx")),
    )

    def check(self, kernel, function, inputs):
        for mine, theirs in zip(kernel(inputs), as_list(function(*inputs)), strict=True):
            self.assertEqual(mine.dtype, theirs.dtype)
            same = (mine == theirs) & (mine.signbit() == theirs.signbit())
            wrong = ~(same | (mine.isnan() & theirs.isnan()))
            self.assertFalse(
                wrong.any(), f"{mine[wrong][:4].tolist()} for {theirs[wrong][:4].tolist()}"
            )


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


#: The same functions, with digits far below zero.
EXACT = {
    F.gelu: lambda x: x * 0.5 * torch.erfc(-x / 2**0.5),
    gelu_tanh: lambda x: x * torch.sigmoid((8 / math.pi) ** 0.5 * (x + 0.044715 * x**3)),
}


#: A product with the reciprocal would round ties in another way.
QUOTIENTS = {f"over_{divisor}": lambda x, by=divisor: x / by for divisor in (1.7, 7, 14, 26)}


def large_cases():
    """Rows with the value that masks have: a sum of them is beyond float32."""
    rows = torch.randn(6, 300).bfloat16()
    rows[:, :10] = torch.finfo(torch.bfloat16).min
    full = torch.full((8, 100), 3e38).bfloat16()
    return [
        ("mean_of_masked", lambda x: torch.var_mean(x, 1)[1], (rows,)),
        ("variance_of_large", lambda x: x.var(1), (full,)),
    ]


def function_cases():
    """Functions of every number of a half."""
    functions = {
        "exp": torch.exp,
        "sigmoid": torch.sigmoid,
        "silu": F.silu,
        "tanh": torch.tanh,
        "gelu": F.gelu,
        "gelu_tanh": gelu_tanh,
        **QUOTIENTS,
    }
    return [
        (f"{name}_{dtype}".replace("torch.", ""), function, (all_halves(dtype),))
        for name, function in functions.items()
        for dtype in (torch.bfloat16, torch.float16)
    ]


class Functions(KernelCases, unittest.TestCase):
    """As near to float64 as eager, or at most a hundredth of a last digit further than half
    a digit."""

    groups = (function_cases,)
    variants = Conversions.variants

    def check(self, kernel, function, inputs):
        (mine,) = kernel(inputs)
        (x,) = inputs
        eager = function(x)
        if function in QUOTIENTS.values():
            self.assertTrue(torch.equal(mine.nan_to_num(), eager.nan_to_num()))
            return
        truth = EXACT.get(function, function)(x.double())

        def check_none(wrong, what):
            values = list(zip(x[wrong].tolist(), mine[wrong].tolist(), truth[wrong].tolist()))
            self.assertFalse(values, f"{what}: {len(values)}, (x, kernel, float64): {values[:5]}")

        check_none((mine.isnan() != eager.isnan()) & (mine.isnan() != truth.isnan()), "NaN")
        nearest = truth.to(x.dtype)
        finite = nearest.isfinite() & mine.isfinite()
        check_none(~finite & ~mine.isnan() & (mine != eager) & (mine != nearest), "infinite")
        above = (nearest.abs().view(torch.int16) + 1).view(x.dtype)
        digit = above.double() - nearest.abs().double()
        off, eagers_off = ((y.double() - truth).abs() / digit for y in (mine, eager))
        check_none(finite & (off > 0.51) & (off > eagers_off), "digits")


class Large(KernelCases, unittest.TestCase):
    groups = (large_cases,)
    variants = Conversions.variants

    def check(self, kernel, function, inputs):
        (mine,) = kernel(inputs)
        torch.testing.assert_close(mine, function(*inputs))


class HalvesOnProcessor(KernelCases, unittest.TestCase):
    groups = (half_cases,)
    refused = frozenset({"half_depthwise_float16", "half_depthwise_bfloat16"})
    variants = (
        CpuVariant("first", 0, 2, 64, 0, 1, "-O1"),
        CpuVariant("as shipped", 1, 2, 64, 0, 5, "-O3"),
        CpuVariant("one core, narrow", 0, 1, 16, 1, 5, "-O1"),
        CpuVariant("no instructions", -1, 4, 32, 2, 5, "-O1", without=NO_CONVERSIONS),
    )


if __name__ == "__main__":
    unittest.main()
