"""Kernels of every target round and raise as eager does: equal numbers where the model's
operators are additions, products and comparisons, near ones behind functions.
"""

import unittest

import torch
import torch.nn.functional as F

from cpu_kernels import CpuVariant
from cuda_on_host import CudaVariant
from kernel_cases import KernelCases, as_list, numbers
from triton_kernels import TritonVariant

EPS = torch.finfo(torch.float32).eps


def ties(*shape):
    """Two positive tensors, equal in many places."""
    y = numbers(*shape).abs() + 0.1
    return torch.where(numbers(*shape, seed=3) < 0, y, y + 0.3), y


def rotary(q, k, base):
    step = torch.arange(0, 16, 2, device=q.device).float() / 16
    angle = torch.outer(torch.arange(24, device=q.device).float(), 1.0 / (base**step))
    angle = torch.cat((angle, angle), dim=-1)

    def turned(x, cos, sin):
        left, right = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-right, left), dim=-1) * sin

    return [
        turned(q, angle.cos().to(q.dtype), angle.sin().to(q.dtype)),
        turned(k, angle.cos(), angle.sin()),
    ]


def ties_counted(x):
    scaled = x / 11.3137085
    at_top = scaled == scaled.amax(dim=-1, keepdim=True)
    count = at_top.sum(dim=-1)
    return [count, at_top.to(x.dtype) / count.unsqueeze(-1).to(x.dtype)]


def rounding_cases():
    """Every result is eager's, bit by bit."""
    x, y = ties(60, 257)
    z = numbers(60, 257, seed=7).abs() + 0.2
    return [
        ("leg", lambda x, y: x * x - y * y, (x, y)),
        ("area", lambda x, y, z: (x * y - y * x).abs() + (x * z - z * x), (x, y, z)),
        ("equal_products", lambda x, z: (x * z) - (z * x) == 0, (x, z)),
        ("added", lambda x, y, z: x * y + z, (x, y, z)),
        ("subtracted", lambda x, y, z: z - x * y, (x, y, z)),
        ("scaled", lambda x, y: x * 3.3 - y * 0.7 + 1.1, (x, y)),
        ("squared", lambda x, y: x**2 - y**2, (x, y)),
        ("square", lambda x, y: x.square() - y * y, (x, y)),
        (
            "doubles",
            lambda x, y: [x * y - y * 0.3, x * x + y * y],
            (x.double() / 7, y.double() / 3),
        ),
        ("steps", lambda x, y: (x * 3.3 + y).floor(), (x, y)),
    ]


def half_rounding_cases():
    """The same of 16 bits."""
    x, y = ties(40, 200)
    cases = []
    for dtype in (torch.bfloat16, torch.float16):
        a, b = x.to(dtype), y.to(dtype)
        name = str(dtype).removeprefix("torch.")
        cases += [
            (f"ties_{name}", ties_counted, (a,)),
            (f"chain_{name}", lambda x, y: (x * y + x) * 0.3 - y, (a, b)),
            (
                f"numbers_{name}",
                lambda x: [x == 0.1, x <= 0.3, x > 1.7],
                ((x * 0 + 0.1).to(dtype),),
            ),
            (f"levels_{name}", lambda x, y: ((x * 3.3) / y).floor(), (a, b)),
            (f"chosen_{name}", lambda x, y: torch.where(x * y > 0.7, x, 0.1), (a, b)),
            (f"clamped_{name}", lambda x: x.clamp(0.1, 0.7) == 0.1, (a,)),
        ]
    return cases


def near_cases():
    x = (numbers(64, 512) * 50).round() / 100
    gain = torch.full((512,), 3.3e9)
    frequencies = numbers(9, 40)
    return [
        ("roots", lambda x: (x * x * 0.7 - x * x * 0.7).sqrt(), (x,)),
        ("sharp", lambda x: (x / 1e-6).softmax(-1), (x,)),
        ("hot", lambda x: (x * 1.7e14).softmax(-1), (x,)),
        ("learned", lambda x, g: (x * g).log_softmax(-1).exp(), (x, gain)),
        ("logsumexp", lambda x, g: (x * g).logsumexp(-1), (x, gain)),
        ("number_first", lambda x: 2.0**x, (frequencies,)),
        ("base_first", lambda x: 10000.0 ** (x / 3), (frequencies,)),
        ("quotient_of_number", lambda x: 3.0 / (1 + 2**x), (frequencies,)),
    ]


def near_half_cases():
    return [
        (
            "rotary",
            lambda q, k: rotary(q, k, 10000.0),
            (numbers(1, 2, 24, 16).bfloat16(), numbers(1, 2, 24, 16, seed=2)),
        )
    ]


def moment_cases():
    x = numbers(24, 700, scale=1.0)
    image = numbers(4, 6, 9, 10, scale=1.0)
    cases = []
    for name, tensor in (
        ("far", x + 30_000),
        ("tiny", x * 1e-25),
        ("huge", x * 1e25),
        ("far_tiny", (x + 900) * 1e-24),
    ):
        cases += [
            (f"std_{name}", lambda x: x.std(1), (tensor,)),
            (f"std_all_{name}", lambda x: x.std(), (tensor,)),
            (f"std_down_{name}", lambda x: x.std(0, correction=0), (tensor,)),
            (f"length_{name}", lambda x: x.norm(dim=1), (tensor,)),
        ]
    return [
        *cases,
        ("var_far", lambda x: x.var(1), (x + 30_000,)),
        ("var_mean_far", lambda x: list(torch.var_mean(x, 1)), (x - 9_000,)),
        ("std_long", lambda x: x.std(1), (numbers(2, 70_000) + 20_000,)),
        ("batch_norm_far", lambda x: F.batch_norm(x, None, None, training=True), (image + 20_000,)),
    ]


class EqualToEager(KernelCases):
    groups = (rounding_cases,)
    near = 0.0  # of eager's own number, or of 1

    def check(self, kernel, function, inputs):
        for mine, theirs in zip(kernel(inputs), as_list(function(*inputs)), strict=True):
            self.assertEqual((mine.dtype, mine.shape), (theirs.dtype, theirs.shape))
            if not theirs.dtype.is_floating_point:
                self.assertTrue(torch.equal(mine, theirs))
                continue
            mine, theirs = mine.double(), theirs.double()
            same = (mine == theirs) | (mine.isnan() & theirs.isnan())
            off = (mine - theirs).abs() <= self.near * theirs.abs().clamp(min=1)
            wrong = ~(same | off)
            self.assertFalse(
                wrong.any(), f"{mine[wrong][:4].tolist()} for {theirs[wrong][:4].tolist()}"
            )


class OnProcessor(EqualToEager, unittest.TestCase):
    groups = (rounding_cases, half_rounding_cases)
    variants = (
        CpuVariant("first", 0, 2, 64, 0, 1, "-O3"),
        CpuVariant("narrow", -1, 1, 16, 0, 2, "-O2"),
    )


class InTriton(EqualToEager, unittest.TestCase):
    groups = (rounding_cases, half_rounding_cases)
    variants = (TritonVariant("first", 0, 1, multiprocessors=132),)


class InCuda(EqualToEager, unittest.TestCase):
    groups = (rounding_cases, half_rounding_cases)
    variants = (CudaVariant("first", 0, 1, multiprocessors=132),)


class NearOnProcessor(EqualToEager, unittest.TestCase):
    groups = (near_cases,)
    near = 16 * EPS
    variants = OnProcessor.variants


class NearInTriton(EqualToEager, unittest.TestCase):
    groups = (near_cases, near_half_cases)
    near = 16 * EPS
    variants = InTriton.variants


class NearInCuda(EqualToEager, unittest.TestCase):
    groups = (near_cases, near_half_cases)
    near = 16 * EPS
    variants = InCuda.variants


class MomentsOnProcessor(KernelCases, unittest.TestCase):
    """As near to float64 as eager is, in every unit."""

    groups = (moment_cases,)
    variants = OnProcessor.variants

    def check(self, kernel, function, inputs):
        truth = as_list(function(*[t.double() for t in inputs]))
        for mine, theirs, exact in zip(
            kernel(inputs), as_list(function(*inputs)), truth, strict=True
        ):
            scale = exact.abs().max()
            theirs_off = (theirs.double() - exact).abs().max() / scale
            mine_off = (mine.double() - exact).abs().max() / scale
            self.assertLessEqual(mine_off.item(), 2 * theirs_off.item() + 2 * EPS)


def lookup_cases():
    """Each with an index that eager takes, and one that it does not."""
    table, column = numbers(50, 24), numbers(50)
    index = torch.tensor([3, 0, 49, 7])
    outside, below = index + 1, index - 1

    def case(name, function, *inputs, bad):
        return (name, function, inputs), bad

    return [
        case("embedding", lambda i, w: F.embedding(i, w) * 2, index, table, bad=(outside, table)),
        case(
            "embedding_below", lambda i, w: F.embedding(i, w) + 2, index, table, bad=(below, table)
        ),
        case("index", lambda x, i: x[i].tanh(), table, index - 50, bad=(table, outside)),
        case("index_below", lambda x, i: x[i] + 1, table, index - 50, bad=(table, index - 51)),
        case("index_twice", lambda x, i: x[i, i % 24] * 3, table, index, bad=(table, outside)),
        case(
            "index_select",
            lambda x, i: x.index_select(0, i).exp(),
            column,
            index,
            bad=(column, outside),
        ),
        case(
            "gather",
            lambda x, i: x.gather(0, i) + 1,
            table,
            index.unsqueeze(1),
            bad=(table, outside.unsqueeze(1)),
        ),
        case(
            "gather_below",
            lambda x, i: x.gather(0, i) - 1,
            table,
            index.unsqueeze(1),
            bad=(table, below.unsqueeze(1)),
        ),
        case("take", lambda x, i: torch.take(x, i) + 1, column, index, bad=(column, outside)),
        case(
            "one_row", lambda x, i: F.embedding(i, x[:1]) * 2, table, index * 0, bad=(table, index)
        ),
        case(
            "loss",
            lambda x, i: F.nll_loss(x, i, reduction="none"),
            table[:4],
            index % 24,
            bad=(table[:4], index),
        ),
    ]


class Lookups(KernelCases):
    """A case that a target has no code for is the framework's, and raises."""

    groups = (lambda: [case for case, _ in lookup_cases()],)

    @classmethod
    def is_refused(cls, number, answer):
        return "error" in answer

    def test_an_index_outside_raises_as_in_eager(self):
        lookups = lookup_cases()
        raised = set()
        for label, i, kernel in self.kernels:
            (name, function, _), bad = lookups[i]
            with self.subTest(variant=label, case=name):
                with self.assertRaises((IndexError, RuntimeError)):
                    function(*bad)
                with self.assertRaises(IndexError):
                    kernel(bad)
                raised.add(name)
        self.assertLessEqual({"embedding", "index", "index_select", "gather", "one_row"}, raised)


class LookupsOnProcessor(Lookups, unittest.TestCase):
    variants = OnProcessor.variants


class LookupsInTriton(Lookups, unittest.TestCase):
    variants = InTriton.variants


class LookupsInCuda(Lookups, unittest.TestCase):
    variants = InCuda.variants


if __name__ == "__main__":
    unittest.main()
