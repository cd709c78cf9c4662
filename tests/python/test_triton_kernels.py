"""Every operator that the compiler lowers for the `triton` target, run by
Triton's interpreter, against the framework in float64.

Needs the program triton_codegen_cli (tests/compiler/tools): its path is in
WEFT_TRITON_CODEGEN, or it stands in build/.
"""

import triton_kernels  # noqa: F401  first: it tells Triton to interpret

import tempfile
import unittest

import numpy as np
import torch
import torch.nn.functional as F

import captured_cases
import test_contractions as contractions
import test_cpu_kernels as operators
import test_gathered_gradients as gathered
import test_movement_kernels as movement
import test_pool_kernels as pools
from kernel_cases import (
    INF,
    KernelCases,
    channels_last_cases,
    half_cases,
    level_row_cases,
    long_row_cases,
    numbers,
    special,
)
from test_contractions import convolution
from triton_kernels import TritonVariant
from weft.expect import tf32

# What takes the interpreter long: smaller ones of the kind are below.
SLOW = {"large_softmax", "large_softmax0", "large_var0", "batch_large",
        "max2d_of_dear", "mean2d_dear", "max2d_padded", "large_two_results",
        "large_rows", "large_argmax0", "transposed3d_mean", "conv3d"}

# Triton has no such function, or not in float64.
REFUSED = {f"{name}_{shape}" for shape in ("(5, 17)_0", "(1023,)_1")
           for name in ("tan", "atan", "sinh", "cosh", "asin", "fmod",
                        "remainder", "log10", "floor_divide", "trunc_divide",
                        "erfc")}
REFUSED |= {"atan2" + how for how in ("", "_special", "_row", "_column",
                                      "_one")} | {"f64"}


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


def infinite_weights(name, inputs, outputs, space, taps, **options):
    """A transposed convolution of positive numbers, each weight of two outputs
    infinite: so are these, and nan where a zero was multiplied."""
    name, forward, (x, w) = convolution(
        name, len(space), inputs, outputs, space, taps, bias=False, **options)
    w[:, 1], w[:, -1] = INF, -INF
    return [(name, forward, (x.abs() * 0.1, w))]


def product_cases():
    """Large enough for the matrix units, and odd in every extent."""
    a, b = numbers(37, 45), numbers(45, 21)
    long_a, long_b = numbers(20, 1100, scale=0.5), numbers(1100, 24, scale=0.5)
    weight, bias = numbers(21, 45, scale=0.3), numbers(21, seed=3)
    batch_a, batch_b = numbers(3, 18, 20), numbers(3, 20, 17)
    return [
        ("units_mm", lambda a, b: a @ b, (a, b)),
        ("units_wide", lambda a, b: a @ b, (numbers(17, 9), numbers(9, 150))),
        ("units_turned", lambda a, b: a.t() @ b.t(),
         (numbers(45, 37), numbers(21, 45))),
        ("units_strided", lambda a, b: a @ b, (numbers(74, 90)[::2, ::2], b)),
        ("units_special", lambda a, b: a @ b, (special(37, 45), b)),
        ("units_of_results", lambda a, b: a.relu() @ b.exp(), (a, b)),
        ("units_of_softmax", lambda a, b: a.softmax(1) @ b, (a, b)),
        ("units_shared_sums", lambda a, b: a @ b, (long_a, long_b)),
        ("units_shared_bias", lambda a, b, c: F.gelu(a @ b + c),
         (long_a, long_b, numbers(24))),
        ("units_shared_batch", torch.bmm, (numbers(2, 17, 1030, scale=0.4),
                                           numbers(2, 1030, 19, scale=0.4))),
        ("units_many_tiles", lambda a, b: a @ b, (numbers(1100, 20),
                                                  numbers(20, 140))),
        ("units_linear", lambda x, w, c: F.gelu(F.linear(x, w, c)),
         (a, weight, bias)),
        ("units_linear_rows", F.linear, (numbers(3, 13, 45), weight, bias)),
        ("units_linear_norm", lambda x, w, c: F.layer_norm(
            F.linear(x, w, c), (21,)), (a, weight, bias)),
        ("units_linear_residual", lambda x, w, c, y: F.linear(x, w, c) * y + y,
         (a, weight, bias, numbers(37, 21))),
        ("units_linear_sums", lambda x, w: F.linear(x, w).sum(1), (a, weight)),
        ("units_batch", torch.bmm, (batch_a, batch_b)),
        ("units_broadcast", torch.matmul, (numbers(2, 1, 18, 20), batch_b)),
        ("units_bias_matrix", torch.baddbmm, (numbers(3, 18, 17, seed=4),
                                              batch_a, batch_b)),
        ("units_twice", lambda a, b, c: (a @ b).relu() @ c,
         (a, b, numbers(21, 19, scale=0.05))),  # sums of numbers of some 1
        ("units_two_of_one", lambda a, b, c: [a @ b, a @ c],
         (a, b, numbers(45, 16))),
        ("units_double", lambda a, b: a @ b, (a.double(), b.double())),
    ]


def half_product_cases():
    """The same of 16 bits, which the matrix units take as they are."""
    chosen = [*product_cases(), *attention_cases(), *convolution_cases()]
    return [(name + "_half", function, tuple(
        t.half() if t.is_floating_point() else t for t in inputs))
            for name, function, inputs in chosen if name != "units_double"] + [
        ("units_brain", lambda a, b: a @ b,
         (numbers(37, 45).bfloat16(), numbers(45, 21).bfloat16())),
        ("units_brain_linear", lambda x, w: F.gelu(F.linear(x, w)),
         (numbers(37, 45).bfloat16(), numbers(21, 45).bfloat16()))]


def attention_cases():
    q, k, v = (numbers(2, 2, 21, 24, seed=i) for i in range(3))
    mask = numbers(21, 21) > -1
    mask[2] = False
    attend = F.scaled_dot_product_attention
    return [
        ("units_attention", attend, (q, k, v)),
        ("units_causal", lambda q, k, v: attend(q, k, v, is_causal=True),
         (q, k, v)),
        ("units_masked", lambda q, k, v, m: attend(q, k, v, attn_mask=m),
         (q, k, v, mask)),
    ]


def convolution_cases():
    return [
        convolution("units_conv1d", 1, 16, 18, (25,), (3,), padding=1),
        convolution("units_conv2d", 2, 8, 17, (9, 7), (3, 3), padding=1),
        convolution("units_conv2d_point", 2, 20, 16, (5, 7), (1, 1)),
        convolution("units_conv2d_strided", 2, 9, 16, (9, 11), (3, 5),
                    stride=(2, 3), padding=(1, 2), bias=False),
        convolution("units_conv2d_dilated", 2, 8, 16, (11, 9), (3, 3),
                    dilation=(2, 3), padding=3),
        convolution("units_conv2d_groups", 2, 32, 34, (6, 5), (3, 3), groups=2,
                    padding=1),
        convolution("units_conv2d_depthwise", 2, 18, 18, (7, 6), (3, 3),
                    groups=18, padding=1),
        convolution("units_conv2d_fused", 2, 8, 16, (9, 7), (3, 3),
                    then=lambda x: F.group_norm(F.mish(x), 4).mean((2, 3))),
        # What a window reads of it is computed once, beside the sum.
        convolution("units_conv2d_pooled", 2, 8, 16, (9, 7), (3, 3), padding=1,
                    then=lambda x: F.max_pool2d(F.mish(x), 3, 1, 1)),
        convolution("transposed2d_units_pooled", 2, 16, 18, (5, 4), (3, 3),
                    stride=2, then=lambda x: F.max_pool2d(F.mish(x), 3, 1, 1)),
        convolution("units_conv3d", 3, 4, 16, (4, 5, 3), (3, 2, 3),
                    padding=1),
        convolution("transposed1d_units", 1, 16, 17, (11,), (4,), stride=2,
                    padding=1),
        convolution("transposed2d_units", 2, 16, 18, (5, 4), (3, 3), stride=2,
                    padding=1, output_padding=1),
        # Phases that are no power of two, blocks that are not whole.
        convolution("transposed2d_units_odd", 2, 16, 18, (5, 4), (3, 5),
                    stride=(2, 3), padding=(1, 2), dilation=(2, 1)),
        convolution("transposed2d_units_many", 2, 8, 16, (2, 3), (3, 3),
                    stride=5, dilation=2,
                    then=lambda x: x.relu() + x.flip(0)),
        # Enough rows for weights to be laid out; lanes beyond the last one.
        convolution("transposed2d_units_laid", 2, 8, 16, (64, 62), (3, 3),
                    stride=2),
        convolution("units_conv2d_laid", 2, 3, 16, (66, 65), (3, 3)),
        convolution("transposed2d_units_sparse", 2, 16, 18, (5, 4), (3, 3),
                    stride=2, dilation=2, padding=1),
        ("transposed1d_units_fused", lambda x, w, b, y:
         F.conv_transpose1d(x, w, b, stride=2, padding=1).tanh() + y,
         (numbers(2, 16, 11), numbers(16, 8, 3, scale=0.5), numbers(8),
          numbers(2, 8, 21))),
        convolution("transposed1d_units_norm", 1, 16, 16, (9,), (3,), stride=2,
                    then=lambda x: F.group_norm(x, 4)),
        # Infinities stand in all taps: no nan where a tap meets no input.
        *infinite_weights("transposed1d_units_infinite", 16, 17, (11,), (4,),
                          stride=2, padding=1),
        *infinite_weights("transposed1d_units_infinite_shared", 128, 17, (11,),
                          (4,), padding=2),
        # One column a tile would hold phases of, and no other.
        convolution("transposed1d_units_one", 1, 16, 1, (64,), (16,),
                    stride=8),
        # Its guard is one of those that the padding brings.
        ("transposed1d_units_padded", lambda x, w, b:
         F.conv_transpose1d(F.pad(x, (1, 2)), w, b, stride=2, padding=1),
         (numbers(2, 16, 11), numbers(16, 17, 4, scale=0.5), numbers(17))),
        # What follows asks again what the sum asked, in a block of its own.
        ("transposed1d_units_asked", lambda x, w, b, y:
         F.conv_transpose1d(x, w, b, stride=4, output_padding=1)
         + F.pad(y, (0, 1)).flatten(-2),
         (numbers(1, 8, 8200), numbers(8, 16, 3), numbers(16),
          numbers(1, 16, 8200, 3))),
        convolution("transposed2d_units_groups", 2, 16, 32, (4, 5), (3, 3),
                    groups=2),
    ]


def more_pool_cases():
    image = numbers(1, 2, 5, 7)
    return [
        ("max_padded", lambda x: F.max_pool2d(x, 3, 1, 1), (image,)),
        ("max_of_dear", lambda x: F.max_pool2d(F.mish(x), 3, 1, 1) + 1,
         (image,)),
        ("max_special", lambda x: F.max_pool1d(x, 3, 2, 1), (special(1, 40),)),
        ("max_lowest", lambda x: F.max_pool2d(x, 2, 1, 1),
         (torch.full((1, 1, 4, 5), -INF),)),
        ("mean_dear", lambda x: F.avg_pool2d(F.gelu(x), 3, 1).sigmoid(),
         (image,)),
    ]


def overlapping_window_cases():
    """Rows of results in a number that has divisors: several go together."""
    image, cube = numbers(1, 3, 12, 19), numbers(1, 2, 5, 8, 18)
    last = numbers(1, 18, 8, 9).contiguous(memory_format=torch.channels_last)
    return [
        ("windows_max", lambda x: F.max_pool2d(x, 3, 1, 1), (image,)),
        ("windows_max_even", lambda x: F.max_pool2d(x, 4, 1, 0), (image,)),
        ("windows_max_special", lambda x: F.max_pool2d(x, 3, 1, 1),
         (special(1, 2, 8, 24),)),
        ("windows_mean", lambda x: F.avg_pool2d(x, (5, 3), (2, 1), (2, 1)),
         (image,)),
        ("windows_mean3d", lambda x: F.avg_pool3d(x, 3, 2, 1), (cube,)),
        ("windows_amid", lambda x, y: (
            F.max_pool2d(x.sigmoid() * 3, 3, 1, 1) + y).tanh(),
         (image, numbers(3, 1, 1))),
        ("windows_two_results", lambda x: [
            F.avg_pool2d(x, 3, 1, 1), F.avg_pool2d(x, 3, 1, 1) * 2],
         (image,)),
        ("windows_last", lambda x: F.avg_pool2d(x, 3, 1, 1), (last,)),
        convolution("windows_depthwise", 2, 4, 4, (8, 20), (3, 3), groups=4,
                    padding=1, then=torch.relu),
    ]


# Every case with the first source; what else there is for a part of them.
# Multiprocessors decide what is shared out among programs.
VARIANTS = (TritonVariant("first", 0, 1, multiprocessors=4),
            TritonVariant("others", 1, 16, multiprocessors=4, step=8),
            TritonVariant("one multiprocessor", 0, 1, multiprocessors=1,
                          first=1, step=6),
            TritonVariant("many multiprocessors", 0, 2, multiprocessors=132,
                          first=2, step=6))


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
    groups = [quick(group) for group in (
        *operators.ALL, contractions.product_cases,
        contractions.attention_cases, contractions.convolution_cases,
        contractions.transposed_cases, movement.movement_cases,
        movement.lookup_cases, pools.max_pool_cases, pools.average_pool_cases,
        pools.loss_cases, row_cases, more_pool_cases)]


class OnMatrixUnits(Interpreted, unittest.TestCase):
    groups = (product_cases, attention_cases, convolution_cases)
    variants = (TritonVariant("first", 0, 1, multiprocessors=4),
                TritonVariant("others", 1, 16, multiprocessors=4, step=2),
                TritonVariant("shared", 0, 1, multiprocessors=132))


class Halves(Interpreted, unittest.TestCase):
    groups = (half_cases,)
    variants = (TritonVariant("first", 0, 1, multiprocessors=132),
                TritonVariant("others", 1, 16, multiprocessors=4, step=3))


class HalvesOnMatrixUnits(Interpreted, unittest.TestCase):
    """What a product reads is rounded as the framework rounds it, but not what
    stands between: errors are those of 16 bits, seldom in the same places."""

    groups = (half_product_cases,)
    variants = (TritonVariant("first", 0, 1, multiprocessors=4),
                TritonVariant("others", 1, 16, multiprocessors=132, step=3))
    rounding = 3000


class RoundedToTf32(unittest.TestCase):
    """One pass of the matrix units reads ten bits of each factor's mantissa:
    the nearest ones, as the framework's library does."""

    CASES = [
        ("product", lambda a, b: a @ b, (numbers(37, 45), numbers(45, 21))),
        convolution("windows", 2, 16, 20, (9, 11), (3, 3), bias=False),
        convolution("transposed", 2, 16, 8, (5, 6), (2, 2), bias=False,
                    stride=2),
    ]

    def results(self, inputs_of=lambda own: own):
        """(name of case and variant, function, inputs, result) of each."""
        graphs = captured_cases.graphs_of(self.CASES)
        for graph in graphs:
            for node in graph["nodes"]:
                node["tf32"] = node["kind"] == "call"
        variant = TritonVariant("all", 0, 16, multiprocessors=4)
        with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
            built = variant.build(graphs, variant.generate(graphs, ()), folder)
            for (name, function, own), kernels in zip(self.CASES, built):
                own = inputs_of(own)
                for label, kernel in kernels.items():
                    if "tf32" in label.split():
                        yield f"{name} {label}", function, own, kernel(own)[0]

    def test_factors_are_rounded_to_the_nearest(self):
        tried = 0
        for name, function, own, result in self.results():
            tried += 1
            apart = {}
            for how, take in (("rounded", tf32.rounded), ("cut", tf32.cut)):
                wanted = function(*(take(x).double() for x in own))
                apart[how] = float((result - wanted).abs().max()
                                   / wanted.abs().max())
            self.assertLess(apart["rounded"], 1e-6, name)
            self.assertGreater(apart["cut"], 1e-5, name)
        self.assertGreaterEqual(tried, 6)

    def test_infinities_and_every_nan_stay(self):
        made = torch.tensor([0x7FFFFFFF, -1], dtype=torch.int32)
        nans = made.view(torch.float32)

        def with_special(own):
            first = own[0].clone()
            first.view(-1)[:2] = nans
            first.view(-1)[-1] = INF
            return (first, *own[1:])

        for name, function, own, result in self.results(with_special):
            wanted = function(*own)
            self.assertTrue(torch.equal(result.isnan(), wanted.isnan()), name)
            self.assertTrue(torch.equal(result.isinf(), wanted.isinf()), name)
            self.assertTrue(bool(wanted.isnan().any()), name)


class Windows(Interpreted, unittest.TestCase):
    groups = (overlapping_window_cases,)
    variants = (TritonVariant("first", 0, 1, multiprocessors=4),)


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
