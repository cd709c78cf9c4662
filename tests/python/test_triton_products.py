"""Products, attention and convolutions for Triton's matrix units, run by its
interpreter, against PyTorch in float64 (test_triton_kernels.py)."""

import triton_kernels  # noqa: F401  first: it tells Triton to interpret

import tempfile
import unittest

import numpy as np
import torch
import torch.nn.functional as F

import captured_cases
from kernel_cases import INF, numbers, special
from test_contractions import convolution
from test_triton_kernels import Interpreted
from triton_kernels import TritonVariant
from weft.expect import tf32


def infinite_weights(name, inputs, outputs, space, taps, **options):
    """A transposed convolution of positive numbers, each weight of two outputs
    infinite: so are these, and nan where a zero was multiplied."""
    name, forward, (x, w) = convolution(
        name, len(space), inputs, outputs, space, taps, bias=False, **options
    )
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
        ("units_turned", lambda a, b: a.t() @ b.t(), (numbers(45, 37), numbers(21, 45))),
        ("units_strided", lambda a, b: a @ b, (numbers(74, 90)[::2, ::2], b)),
        ("units_special", lambda a, b: a @ b, (special(37, 45), b)),
        ("units_of_results", lambda a, b: a.relu() @ b.exp(), (a, b)),
        ("units_of_softmax", lambda a, b: a.softmax(1) @ b, (a, b)),
        ("units_shared_sums", lambda a, b: a @ b, (long_a, long_b)),
        ("units_shared_bias", lambda a, b, c: F.gelu(a @ b + c), (long_a, long_b, numbers(24))),
        (
            "units_shared_batch",
            torch.bmm,
            (numbers(2, 17, 1030, scale=0.4), numbers(2, 1030, 19, scale=0.4)),
        ),
        ("units_many_tiles", lambda a, b: a @ b, (numbers(1100, 20), numbers(20, 140))),
        ("units_linear", lambda x, w, c: F.gelu(F.linear(x, w, c)), (a, weight, bias)),
        ("units_linear_rows", F.linear, (numbers(3, 13, 45), weight, bias)),
        (
            "units_linear_norm",
            lambda x, w, c: F.layer_norm(F.linear(x, w, c), (21,)),
            (a, weight, bias),
        ),
        (
            "units_linear_residual",
            lambda x, w, c, y: F.linear(x, w, c) * y + y,
            (a, weight, bias, numbers(37, 21)),
        ),
        ("units_linear_sums", lambda x, w: F.linear(x, w).sum(1), (a, weight)),
        ("units_batch", torch.bmm, (batch_a, batch_b)),
        ("units_broadcast", torch.matmul, (numbers(2, 1, 18, 20), batch_b)),
        ("units_bias_matrix", torch.baddbmm, (numbers(3, 18, 17, seed=4), batch_a, batch_b)),
        (
            "units_twice",
            lambda a, b, c: (a @ b).relu() @ c,
            (a, b, numbers(21, 19, scale=0.05)),
        ),  # sums of numbers of some 1
        ("units_two_of_one", lambda a, b, c: [a @ b, a @ c], (a, b, numbers(45, 16))),
        ("units_double", lambda a, b: a @ b, (a.double(), b.double())),
    ]


def half_product_cases():
    """The same of 16 bits, which the matrix units take as they are."""
    chosen = [*product_cases(), *attention_cases(), *convolution_cases()]
    return [
        (name + "_half", function, tuple(t.half() if t.is_floating_point() else t for t in inputs))
        for name, function, inputs in chosen
        if name != "units_double"
    ] + [
        (
            "units_brain",
            lambda a, b: a @ b,
            (numbers(37, 45).bfloat16(), numbers(45, 21).bfloat16()),
        ),
        (
            "units_brain_linear",
            lambda x, w: F.gelu(F.linear(x, w)),
            (numbers(37, 45).bfloat16(), numbers(21, 45).bfloat16()),
        ),
    ]


def attention_cases():
    q, k, v = (numbers(2, 2, 21, 24, seed=i) for i in range(3))
    mask = numbers(21, 21) > -1
    mask[2] = False
    attend = F.scaled_dot_product_attention
    return [
        ("units_attention", attend, (q, k, v)),
        ("units_causal", lambda q, k, v: attend(q, k, v, is_causal=True), (q, k, v)),
        ("units_masked", lambda q, k, v, m: attend(q, k, v, attn_mask=m), (q, k, v, mask)),
    ]


def convolution_cases():
    return [
        convolution("units_conv1d", 1, 16, 18, (25,), (3,), padding=1),
        convolution("units_conv2d", 2, 8, 17, (9, 7), (3, 3), padding=1),
        convolution("units_conv2d_point", 2, 20, 16, (5, 7), (1, 1)),
        convolution(
            "units_conv2d_strided",
            2,
            9,
            16,
            (9, 11),
            (3, 5),
            stride=(2, 3),
            padding=(1, 2),
            bias=False,
        ),
        convolution("units_conv2d_dilated", 2, 8, 16, (11, 9), (3, 3), dilation=(2, 3), padding=3),
        convolution("units_conv2d_groups", 2, 32, 34, (6, 5), (3, 3), groups=2, padding=1),
        convolution("units_conv2d_depthwise", 2, 18, 18, (7, 6), (3, 3), groups=18, padding=1),
        convolution(
            "units_conv2d_fused",
            2,
            8,
            16,
            (9, 7),
            (3, 3),
            then=lambda x: F.group_norm(F.mish(x), 4).mean((2, 3)),
        ),
        # What a window reads of it is computed once, beside the sum.
        convolution(
            "units_conv2d_pooled",
            2,
            8,
            16,
            (9, 7),
            (3, 3),
            padding=1,
            then=lambda x: F.max_pool2d(F.mish(x), 3, 1, 1),
        ),
        convolution(
            "transposed2d_units_pooled",
            2,
            16,
            18,
            (5, 4),
            (3, 3),
            stride=2,
            then=lambda x: F.max_pool2d(F.mish(x), 3, 1, 1),
        ),
        convolution("units_conv3d", 3, 4, 16, (4, 5, 3), (3, 2, 3), padding=1),
        convolution("transposed1d_units", 1, 16, 17, (11,), (4,), stride=2, padding=1),
        convolution(
            "transposed2d_units", 2, 16, 18, (5, 4), (3, 3), stride=2, padding=1, output_padding=1
        ),
        # Phases that are no power of two, blocks that are not whole.
        convolution(
            "transposed2d_units_odd",
            2,
            16,
            18,
            (5, 4),
            (3, 5),
            stride=(2, 3),
            padding=(1, 2),
            dilation=(2, 1),
        ),
        convolution(
            "transposed2d_units_many",
            2,
            8,
            16,
            (2, 3),
            (3, 3),
            stride=5,
            dilation=2,
            then=lambda x: x.relu() + x.flip(0),
        ),
        # Enough rows for weights to be laid out; lanes beyond the last one.
        convolution("transposed2d_units_laid", 2, 8, 16, (64, 62), (3, 3), stride=2),
        convolution("units_conv2d_laid", 2, 3, 16, (66, 65), (3, 3)),
        convolution(
            "transposed2d_units_sparse", 2, 16, 18, (5, 4), (3, 3), stride=2, dilation=2, padding=1
        ),
        (
            "transposed1d_units_fused",
            lambda x, w, b, y: F.conv_transpose1d(x, w, b, stride=2, padding=1).tanh() + y,
            (numbers(2, 16, 11), numbers(16, 8, 3, scale=0.5), numbers(8), numbers(2, 8, 21)),
        ),
        convolution(
            "transposed1d_units_norm",
            1,
            16,
            16,
            (9,),
            (3,),
            stride=2,
            then=lambda x: F.group_norm(x, 4),
        ),
        # Infinities stand in all taps: no nan where a tap meets no input.
        *infinite_weights("transposed1d_units_infinite", 16, 17, (11,), (4,), stride=2, padding=1),
        *infinite_weights("transposed1d_units_infinite_shared", 128, 17, (11,), (4,), padding=2),
        # One column a tile would hold phases of, and no other.
        convolution("transposed1d_units_one", 1, 16, 1, (64,), (16,), stride=8),
        # Its guard is one of those that the padding brings.
        (
            "transposed1d_units_padded",
            lambda x, w, b: F.conv_transpose1d(F.pad(x, (1, 2)), w, b, stride=2, padding=1),
            (numbers(2, 16, 11), numbers(16, 17, 4, scale=0.5), numbers(17)),
        ),
        # What follows asks again what the sum asked, in a block of its own.
        (
            "transposed1d_units_asked",
            lambda x, w, b, y: (
                F.conv_transpose1d(x, w, b, stride=4, output_padding=1)
                + F.pad(y, (0, 1)).flatten(-2)
            ),
            (numbers(1, 8, 8200), numbers(8, 16, 3), numbers(16), numbers(1, 16, 8200, 3)),
        ),
        convolution("transposed2d_units_groups", 2, 16, 32, (4, 5), (3, 3), groups=2),
    ]


class OnMatrixUnits(Interpreted, unittest.TestCase):
    groups = (product_cases, attention_cases, convolution_cases)
    variants = (
        TritonVariant("first", 0, 1, multiprocessors=4),
        TritonVariant("others", 1, 16, multiprocessors=4, step=2),
        TritonVariant("shared", 0, 1, multiprocessors=132, first=1, step=2),
    )


class HalvesOnMatrixUnits(Interpreted, unittest.TestCase):
    """What a product reads is rounded as the framework rounds it, but not what
    stands between: errors are those of 16 bits, seldom in the same places."""

    groups = (half_product_cases,)
    variants = (
        TritonVariant("first", 0, 1, multiprocessors=4),
        TritonVariant("others", 1, 16, multiprocessors=132, step=3),
    )
    rounding = 3000


class RoundedToTf32(unittest.TestCase):
    """One pass of the matrix units reads ten bits of each factor's mantissa:
    the nearest ones, as the framework's library does."""

    CASES = [
        ("product", lambda a, b: a @ b, (numbers(37, 45), numbers(45, 21))),
        convolution("windows", 2, 16, 20, (9, 11), (3, 3), bias=False),
        convolution("transposed", 2, 16, 8, (5, 6), (2, 2), bias=False, stride=2),
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
                apart[how] = float((result - wanted).abs().max() / wanted.abs().max())
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


if __name__ == "__main__":
    unittest.main()
