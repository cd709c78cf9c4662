"""Every operator that the compiler lowers for the `triton` target, run by
Triton's interpreter, against PyTorch in float64.

Needs the program triton_codegen_cli (tests/compiler/tools): its path is in
WEFT_TRITON_CODEGEN, or it stands in build/.
"""

import triton_kernels  # noqa: F401  first: it tells Triton to interpret

import unittest

import numpy as np
import torch
import torch.nn.functional as F

import test_contractions as contractions
import test_cpu_kernels as operators
import test_gathered_gradients as gathered
import test_movement_kernels as movement
import test_pool_kernels as pools
from kernel_cases import (
    INF,
    KernelCases,
    OneReader,
    channels_last_cases,
    half_cases,
    level_row_cases,
    long_row_cases,
    numbers,
    residual_cases,
    special,
)
from test_contractions import convolution
from triton_kernels import TritonVariant

# What takes the interpreter long: smaller ones of the kind are below.
SLOW = {
    "large_softmax",
    "large_softmax0",
    "large_var0",
    "batch_large",
    "max2d_of_dear",
    "mean2d_dear",
    "max2d_padded",
    "large_two_results",
    "large_rows",
    "large_argmax0",
    "transposed3d_mean",
    "conv3d",
}

# Triton has no such function, or not in float64.
REFUSED = {
    f"{name}_{shape}"
    for shape in ("(5, 17)_0", "(1023,)_1")
    for name in (
        "tan",
        "atan",
        "sinh",
        "cosh",
        "asin",
        "fmod",
        "remainder",
        "log10",
        "floor_divide",
        "trunc_divide",
        "erfc",
    )
}
REFUSED |= {"atan2" + how for how in ("", "_special", "_row", "_column", "_one")} | {"f64"}


def quick(group):
    """The group without what is slow."""
    return lambda: [case for case in group() if case[0] not in SLOW]


def row_cases():
    """Rows longer than what a program holds: walked where there are many,
    shared out among programs where there are few."""
    many = numbers(9, 16_500) + 3
    return [
        *long_row_cases(),
        *level_row_cases(),
        *channels_last_cases(),
        ("many_largest", lambda x: torch.max(x, 1), (many,)),
        ("many_truths", lambda x: (x > 4).sum(1), (many,)),
    ]


def more_pool_cases():
    image = numbers(1, 2, 5, 7)
    return [
        ("max_padded", lambda x: F.max_pool2d(x, 3, 1, 1), (image,)),
        ("max_of_dear", lambda x: F.max_pool2d(F.mish(x), 3, 1, 1) + 1, (image,)),
        ("max_special", lambda x: F.max_pool1d(x, 3, 2, 1), (special(1, 40),)),
        ("max_lowest", lambda x: F.max_pool2d(x, 2, 1, 1), (torch.full((1, 1, 4, 5), -INF),)),
        ("mean_dear", lambda x: F.avg_pool2d(F.gelu(x), 3, 1).sigmoid(), (image,)),
    ]


def overlapping_window_cases():
    """Rows of results in a number that has divisors: several go together."""
    image, cube = numbers(1, 3, 12, 19), numbers(1, 2, 5, 8, 18)
    last = numbers(1, 18, 8, 9).contiguous(memory_format=torch.channels_last)
    return [
        ("windows_max", lambda x: F.max_pool2d(x, 3, 1, 1), (image,)),
        ("windows_max_even", lambda x: F.max_pool2d(x, 4, 1, 0), (image,)),
        ("windows_max_special", lambda x: F.max_pool2d(x, 3, 1, 1), (special(1, 2, 8, 24),)),
        ("windows_mean", lambda x: F.avg_pool2d(x, (5, 3), (2, 1), (2, 1)), (image,)),
        ("windows_mean3d", lambda x: F.avg_pool3d(x, 3, 2, 1), (cube,)),
        (
            "windows_amid",
            lambda x, y: (F.max_pool2d(x.sigmoid() * 3, 3, 1, 1) + y).tanh(),
            (image, numbers(3, 1, 1)),
        ),
        (
            "windows_two_results",
            lambda x: [F.avg_pool2d(x, 3, 1, 1), F.avg_pool2d(x, 3, 1, 1) * 2],
            (image,),
        ),
        ("windows_last", lambda x: F.avg_pool2d(x, 3, 1, 1), (last,)),
        convolution(
            "windows_depthwise", 2, 4, 4, (8, 20), (3, 3), groups=4, padding=1, then=torch.relu
        ),
    ]


# Every case with the first source; what else there is for a part of them.
# Multiprocessors decide what is shared out among programs.
VARIANTS = (
    TritonVariant("first", 0, 1, multiprocessors=4),
    TritonVariant("others", 1, 16, multiprocessors=4, step=8),
    TritonVariant("one multiprocessor", 0, 1, multiprocessors=1, first=1, step=6),
    TritonVariant("many multiprocessors", 0, 2, multiprocessors=132, first=2, step=6),
)


class Interpreted(KernelCases):
    variants = VARIANTS

    @classmethod
    def setUpClass(cls):
        # NumPy, which interprets, warns where numbers overflow and where
        # lanes that are masked hold nonsense.
        with np.errstate(all="ignore"):
            super().setUpClass()

    def run(self, result=None):
        with np.errstate(all="ignore"):
            return super().run(result)


class TritonKernels(Interpreted, unittest.TestCase):
    refused = REFUSED
    groups = [
        quick(group)
        for group in (
            *operators.ALL,
            contractions.product_cases,
            contractions.attention_cases,
            contractions.convolution_cases,
            contractions.transposed_cases,
            movement.movement_cases,
            movement.lookup_cases,
            pools.max_pool_cases,
            pools.average_pool_cases,
            pools.loss_cases,
            row_cases,
            more_pool_cases,
        )
    ]


class Halves(Interpreted, unittest.TestCase):
    groups = (half_cases,)
    variants = (
        TritonVariant("first", 0, 1, multiprocessors=132),
        TritonVariant("others", 1, 16, multiprocessors=4, step=3),
    )


class Windows(Interpreted, unittest.TestCase):
    groups = (overlapping_window_cases,)
    variants = (TritonVariant("first", 0, 1, multiprocessors=4),)


class Kept(OneReader, Interpreted, unittest.TestCase):
    variants = (TritonVariant("first", 0, 1, multiprocessors=132),)
    reads_last = "tl.load(in7 "


class KeptWhereMemoryIsSlow(Interpreted, unittest.TestCase):
    groups = (residual_cases,)
    variants = (TritonVariant("slow memory", 0, 2, multiprocessors=132, memory=1e-4),)
    rounding = 40  # a softmax of a norm of a sum, each in its own order


class GatheredGradients(Interpreted, unittest.TestCase):
    groups = (gathered.some_cases,)
    variants = (TritonVariant("first", 0, 1, multiprocessors=132),)


class TritonScans(Interpreted, unittest.TestCase):
    """Running sums are added up in float32, while the framework uses float64
    on a CPU: the error is that of a thousand additions."""

    groups = (movement.scan_cases,)
    rounding = 20


if __name__ == "__main__":
    unittest.main()
