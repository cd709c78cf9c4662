"""Gradients in which an element sums over places that a shape or an index tells: of padding,
adaptive pooling and interpolation. The kernels are compared with PyTorch in float64, and by
gradcheck."""

import tempfile
import unittest

import torch
import torch.nn.functional as F

import captured_cases
from cpu_kernels import CpuVariant
from kernel_cases import KernelCases, numbers, special

aten = torch.ops.aten
SHAPES = {1: (2, 3, 11), 2: (2, 3, 5, 7), 3: (1, 2, 3, 4, 5)}


def pad_case(name, mode, shape, margins):
    """The gradient of padding a tensor of that shape."""
    rank = len(margins) // 2
    kind = {"replicate": "replication", "reflect": "reflection"}[mode]
    backward = getattr(aten, f"{kind}_pad{rank}d_backward")
    source = numbers(*shape)
    padded = F.pad(source, margins, mode=mode)
    return (
        f"d_{mode}_{name}",
        lambda g, x: backward(g, x, list(margins)),
        (numbers(*padded.shape, seed=3), source),
    )


def pad_cases():
    cases = []
    for rank, shape in SHAPES.items():
        for mode in ("replicate", "reflect"):
            cases.append(pad_case(f"{rank}d", mode, shape, (2, 1) * rank))
    image = SHAPES[2]
    return [
        *cases,
        pad_case("before", "replicate", image, (1, 0, 1, 0)),
        pad_case("before", "reflect", image, (1, 0, 1, 0)),
        pad_case("cut", "replicate", image, (-2, 3, 1, -1)),
        pad_case("cut", "reflect", image, (-2, 3, 1, -1)),
        pad_case("cut_wholly", "replicate", (2, 2, 2), (-3, 5)),
        pad_case("of_one", "replicate", (2, 1, 1, 1), (3, 2, 0, 4)),
        pad_case("of_two", "reflect", (2, 1, 2, 2), (1, 1, 1, 0)),
        pad_case("all", "reflect", image, (6, 6, 4, 4)),
        pad_case("unbatched", "reflect", image[1:], (1, 2, 3, 0)),
        (
            "d_replicate_then",
            lambda g, x: aten.replication_pad2d_backward(g * 2, x, [1, 1, 1, 1]).relu().sum(1),
            (numbers(2, 3, 7, 9), numbers(*image)),
        ),
        (
            "d_reflect_special",
            lambda g, x: aten.reflection_pad1d_backward(g, x, [2, 2]),
            (special(4, 16), numbers(4, 12)),
        ),
    ]


def adaptive_case(name, shape, counts, source=None):
    rank = len(counts)
    x = numbers(*shape) if source is None else source
    backward = getattr(aten, f"_adaptive_avg_pool{rank}d_backward")
    return (f"d_adaptive_mean_{name}", backward, (numbers(*shape[:-rank], *counts, seed=3), x))


def adaptive_max_case(name, x, counts):
    rank = len(counts)
    forward = getattr(F, f"adaptive_max_pool{rank}d")
    backward = getattr(aten, f"adaptive_max_pool{rank}d_backward")
    result, places = forward(x, counts, return_indices=True)
    return [
        (f"adaptive_max_{name}", lambda x: forward(x, counts, return_indices=True), (x,)),
        (f"d_adaptive_max_{name}", backward, (numbers(*result.shape, seed=3), x, places)),
    ]


def adaptive_cases():
    image, cube = (2, 3, 11, 7), (1, 2, 5, 6, 7)
    unknown = torch.where(numbers(1, 2, 9, 20) > 0, torch.nan, 1.0)
    return [
        adaptive_case("uneven", image, (4, 5)),
        adaptive_case("even", (2, 3, 8, 6), (4, 3)),
        adaptive_case("more", image, (13, 21)),
        adaptive_case("one", image, (1, 7)),
        adaptive_case("each", image, (11, 7)),
        adaptive_case("3d", cube, (3, 4, 7)),
        adaptive_case("unbatched", image[1:], (3, 2)),
        *adaptive_max_case("uneven", numbers(*image), (4, 5)),
        *adaptive_max_case("even", numbers(2, 3, 8, 6), (4, 3)),
        *adaptive_max_case("ties", torch.ones(1, 2, 9, 20), (4, 6)),
        *adaptive_max_case("low", torch.full((1, 1, 7, 9), -torch.inf), (3, 4)),
        *adaptive_max_case("unknown", unknown, (4, 7)),
        *adaptive_max_case("one", numbers(*image), (1, 1)),
        *adaptive_max_case("each", numbers(2, 3, 4, 5), (4, 5)),
        *adaptive_max_case("3d", numbers(*cube), (2, 4, 3)),
    ]


def upsample_case(name, how, shape, size, more=(), align=None, gradient=None):
    rank = len(size)
    align = () if align is None else (align,)
    backward = getattr(aten, f"{how}{rank}d_backward")
    more = more or (None,) * rank
    g = numbers(*shape[:2], *size, seed=3) if gradient is None else gradient
    return (
        f"d_{how}{rank}d_{name}",
        lambda g: backward(g, list(size), list(shape), *align, *more),
        (g,),
    )


LINEAR = {1: "upsample_linear", 2: "upsample_bilinear", 3: "upsample_trilinear"}


def upsample_cases():
    cases = []
    for rank, shape in SHAPES.items():
        twice = [2 * n for n in shape[2:]]
        cases += [
            upsample_case("twice", "upsample_nearest", shape, twice),
            upsample_case("twice", LINEAR[rank], shape, twice, align=False),
        ]
    image = SHAPES[2]
    infinite = numbers(2, 3, 10, 14)
    infinite[0, 0, ::3] = torch.inf
    for how in ("upsample_nearest", "_upsample_nearest_exact"):
        cases += [
            upsample_case("thrice", how, image, (15, 21)),
            upsample_case("odd", how, image, (8, 12)),
            upsample_case("fewer", how, image, (3, 4)),
            upsample_case("same", how, image, image[2:]),
            upsample_case("one", how, (2, 3, 1, 1, 1), (4, 5, 1)),
            upsample_case("factors", how, image, (10, 14), (2.0, 2.0)),
        ]
    for align in (False, True):
        cases += [
            upsample_case(f"odd_{align}", LINEAR[2], image, (8, 13), align=align),
            upsample_case(f"fewer_{align}", LINEAR[2], image, (2, 4), align=align),
            upsample_case(f"same_{align}", LINEAR[2], image, (5, 14), align=align),
            upsample_case(f"one_{align}", LINEAR[2], (2, 3, 1, 7), (4, 1), align=align),
            upsample_case(
                f"infinite_{align}", LINEAR[2], image, (10, 14), align=align, gradient=infinite
            ),
        ]
    cases.append(upsample_case("factors", LINEAR[2], image, (8, 11), (1.6, 1.6), align=False))
    return cases


def sum_cases():
    table, x = numbers(11, 6), numbers(3, 5, 7)
    index = torch.tensor([[3, 0, 3], [10, 3, 1]])
    either_end = torch.tensor([-1, 0, 4, -11, 0])
    rows = numbers(4, 6, seed=2)

    def put(x, at, values):
        return aten.index_put(x, list(at), values, accumulate=True)

    def embedding(count, padding=-1, by_frequency=False):
        return lambda g, i: aten.embedding_dense_backward(g, i, count, padding, by_frequency)

    def over(x, at, value):
        return aten.index_put(x, list(at), value)

    return [
        ("d_embedding", embedding(11), (numbers(2, 3, 6), index)),
        ("d_embedding_padded", embedding(11, 3), (numbers(2, 3, 6), index)),
        ("d_embedding_frequency", embedding(11, -1, True), (numbers(2, 3, 6), index)),
        ("d_embedding_frequency_padded", embedding(11, 3, True), (numbers(2, 3, 6), index)),
        (
            "d_embedding_small",
            embedding(2),
            (numbers(300, 40), torch.arange(300, dtype=torch.int32) % 2),
        ),
        ("d_embedding_long", embedding(50), (numbers(1500, 48), torch.arange(1500) * 7 % 50)),
        ("d_embedding_one", embedding(1), (numbers(6, 1), torch.zeros(6, dtype=torch.int64))),
        ("d_embedding_of_one", embedding(70), (numbers(6), torch.tensor(69))),
        ("put", lambda x, i, v: put(x, (i,), v), (table, either_end, numbers(5, 6))),
        (
            "put_relu",
            lambda x, i, v: put(x * 2, (i,), v.exp()).relu().sum(1),
            (table, either_end, numbers(5, 6)),
        ),
        (
            "put_twice",
            lambda x, i, v: [put(put(x, (i,), v), (i,), v * v), put(x, (i,), v).relu()],
            (table, either_end, numbers(5, 6)),
        ),
        ("put_middle", lambda x, i, v: put(x, (None, i), v), (x, index % 5, numbers(3, 2, 3, 7))),
        (
            "put_two",
            lambda x, i, j, v: put(x, (None, i, j), v),
            (x, torch.tensor([[1], [4]]), torch.tensor([0, 6, -1, 0]), numbers(3, 2, 4)),
        ),
        ("put_alike", lambda x, i, v: put(x, (i,), v), (table, either_end, numbers(1, 6))),
        ("put_number", lambda x, i, v: put(x, (i,), v), (table, either_end, torch.tensor(0.3))),
        (
            "put_integers",
            lambda x, i, v: put(x, (i,), v),
            (torch.arange(11), either_end, torch.arange(5)),
        ),
        ("put_zeros", lambda x, i: over(x, (i,), x.new_zeros(5, 6)), (table, either_end)),
        (
            "put_one_over",
            lambda x, i, v: over(x.relu(), (i,), v) + 1,
            (table, either_end, torch.tensor(0.3)),
        ),
        (
            "put_zeros_two",
            lambda x, i, j: over(x, (None, i, j), x.new_zeros(1)),
            (x, torch.tensor([[1], [4]]), torch.tensor([0, 6, -1, 0])),
        ),
        ("index_add", lambda x, i, s: x.index_add(0, i, s), (table, index[0].repeat(2)[:4], rows)),
        (
            "index_add_last",
            lambda x, i, s: x.index_add(-1, i, s, alpha=-0.7),
            (x, torch.tensor([6, 0, 6]), numbers(3, 5, 3)),
        ),
        (
            "index_add_one",
            lambda x, i, s: x.index_add(1, i, s),
            (x, torch.tensor(4), numbers(3, 1, 7)),
        ),
        ("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), (table, index, numbers(3, 4))),
        (
            "scatter_add_last",
            lambda x, i, s: x.scatter_add(1, i, s),
            (table, index % 6, numbers(5, 6)),
        ),
        (
            "scatter_add_rows",
            lambda x, i, s: x.scatter_add(1, i.unsqueeze(-1).expand(2, 3, 7), s),
            (x, index % 5, numbers(2, 3, 7)),
        ),
        ("d_gather", lambda g, i: g.new_zeros(11, 6).scatter_add(0, i, g), (numbers(2, 3), index)),
        (
            "put_special",
            lambda x, i, v: put(x, (i,), v),
            (special(11, 6), either_end, special(5, 6)),
        ),
    ]


GROUPS = (pad_cases, adaptive_cases, upsample_cases, sum_cases)


def open_cases():
    """Which of equal places wins is not said."""
    return [
        (
            "put_over",
            lambda x, i, v: aten.index_put(x, [i], v),
            (numbers(11, 6), torch.tensor([3, 0, 3]), numbers(3, 6)),
        )
    ]


def some_cases():
    """A few of each kind, for targets whose code is slow to run here."""
    return [case for group in GROUPS for case in group()][::5]


def derivative_cases():
    """(name, function, its gradient of (what comes in, …), and the rest of what
    that is given), in float64."""
    x, image = numbers(2, 3, 5), numbers(1, 2, 4, 5)
    index = torch.tensor([2, 0, 2, 1])
    places = F.adaptive_max_pool2d(image, (3, 2), return_indices=True)[1]
    return [
        (
            "replicate",
            lambda x: F.pad(x, (2, 1), mode="replicate"),
            x,
            lambda g, x: aten.replication_pad1d_backward(g, x, [2, 1]),
            (x,),
        ),
        (
            "reflect",
            lambda x: F.pad(x, (2, 1), mode="reflect"),
            x,
            lambda g, x: aten.reflection_pad1d_backward(g, x, [2, 1]),
            (x,),
        ),
        (
            "adaptive_mean",
            lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
            image,
            aten._adaptive_avg_pool2d_backward,
            (image,),
        ),
        (
            "adaptive_max",
            lambda x: F.adaptive_max_pool2d(x, (3, 2)),
            image,
            aten.adaptive_max_pool2d_backward,
            (image, places),
        ),
        (
            "nearest",
            lambda x: F.interpolate(x, (9, 7)),
            image,
            lambda g: aten.upsample_nearest2d_backward(g, [9, 7], [1, 2, 4, 5], None, None),
            (),
        ),
        (
            "embedding",
            lambda w: F.embedding(index, w),
            numbers(3, 4),
            lambda g, i: aten.embedding_dense_backward(g, i, 3, -1, False),
            (index,),
        ),
        (
            "index",
            lambda x: x[index],
            numbers(3, 4),
            lambda g, i: torch.zeros(3, 4, dtype=g.dtype).index_put((i,), g, accumulate=True),
            (index,),
        ),
    ]


class GatheredGradients(KernelCases, unittest.TestCase):
    groups = (*GROUPS, open_cases)
    refused = {"put_over"}
    variants = (CpuVariant("first", 0, 2, 64, 0, 1, "-O1"),)

    def test_an_index_outside_is_refused(self):
        outside = {"put": (1, 11), "index_add": (1, -1), "scatter_add": (1, 11)}
        tried = 0
        for label, i, kernel in self.kernels:
            name, function, inputs = self.cases[i]
            if name not in outside:
                continue
            tried += 1
            argument, value = outside[name]
            given = [one.clone() for one in inputs]
            given[argument].view(-1)[1] = value
            with self.subTest(case=name):
                with self.assertRaises((IndexError, RuntimeError)):
                    function(*given)
                with self.assertRaises(IndexError):
                    kernel(given)
        self.assertEqual(tried, len(outside))

    def test_terms_are_added_in_the_order_of_eager(self):
        wanted = {"d_embedding_long", "put", "put_two", "index_add", "scatter_add"}
        for _, i, kernel in self.kernels:
            name, function, inputs = self.cases[i]
            if name in wanted:
                wanted.remove(name)
                (got,) = kernel(inputs)
                with self.subTest(case=name):
                    self.assertTrue(torch.equal(got, function(*inputs)))
        self.assertEqual(wanted, set())

    def test_what_has_a_rule_stays_one_call(self):
        wanted = {
            "d_reflect_2d",
            "d_replicate_2d",
            "d_embedding",
            "index_add",
            "scatter_add",
            "d_adaptive_max_even",
        }
        for (name, *_), graph in zip(self.cases, self.graphs):
            if name in wanted:
                calls = [one for one in graph["nodes"] if one["kind"] == "call"]
                self.assertEqual(len(calls), 1, name)
                wanted.remove(name)
        self.assertEqual(wanted, set())


def with_kernel(forward, kernel, rest):
    """That function, whose gradients are the kernel's."""

    class Ours(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return forward(x)

        @staticmethod
        def backward(_, gradient):
            return kernel([gradient.contiguous(), *rest])[0]

    return Ours.apply


class Derivatives(unittest.TestCase):
    """gradcheck of functions whose backward pass is a kernel."""

    def test_kernels_are_the_derivatives(self):
        def wide(one):
            return one.double() if one.is_floating_point() else one

        cases = [
            (name, forward, wide(x), backward, tuple(map(wide, rest)))
            for name, forward, x, backward, rest in derivative_cases()
        ]
        graphs = captured_cases.graphs_of(
            [(name, backward, (forward(x), *rest)) for name, forward, x, backward, rest in cases]
        )
        variant = CpuVariant("wide", 0, 1, 32, 0, 1, "-O1")
        with tempfile.TemporaryDirectory() as folder:
            built = variant.build(graphs, variant.generate(graphs, ()), folder)
        for (name, forward, x, _, rest), kernels in zip(cases, built):
            (kernel,) = kernels.values()

            with self.subTest(name):
                torch.autograd.gradcheck(
                    with_kernel(forward, kernel, rest), (x.requires_grad_(),), nondet_tol=0
                )


if __name__ == "__main__":
    unittest.main()
