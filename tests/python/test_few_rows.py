"""Products of few rows: which are split, that they are right, and that a program computes
by them. Triton's interpreter runs the kernel, in float16: it has no products of bfloat16."""

import unittest
from unittest import mock

import triton_kernels  # noqa: F401  # first: it tells Triton to interpret

# isort: split
import torch
from test_incumbent import IncumbentCase
from test_regions import graph_of
from torch import nn
from torch.nn import functional

import weft
from weft.backend.searches import program_forms, region_search
from weft.regions import few_rows
from weft.regions.insertion import NAMESPACE
from weft.regions.regions import operator_name

#: Multiprocessors of the GPU that the tests play.
PROCESSORS = 32


def error(got, expected):
    """The relative RMS error."""
    expected = expected.double()
    return float((got.double() - expected).norm() / expected.norm())


class Kernel(unittest.TestCase):
    def check(self, rows, terms, columns, parts, has_bias=False):
        dtype = torch.float16
        x = torch.randn(rows, terms, dtype=dtype)
        weights = [(torch.randn(n, terms) / terms**0.5).to(dtype).t() for n in columns]
        blocks = sum(-(-n // few_rows.COLUMNS) for n in columns)
        for joins in (False, True) if parts > 1 else (False,):
            is_sum = parts > 1 and not joins
            adds_bias = has_bias and not is_sum
            biases = [torch.randn(n).to(dtype) for n in columns] if adds_bias else []
            counters = [torch.zeros(blocks, dtype=torch.int32)] if joins else []
            function = few_rows.FewRows(parts, len(columns), adds_bias, joins)
            found = function([x, *weights, *biases, *counters])
            for number, (got, weight) in enumerate(zip(found, weights, strict=True)):
                expected = x.double() @ weight.double()
                if adds_bias:
                    expected += biases[number].double()
                self.assertTrue(got.is_contiguous())
                self.assertEqual(got.dtype, torch.float32 if is_sum else dtype)
                got = got.sum(0) if is_sum else got
                self.assertEqual(got.shape, expected.shape)
                self.assertLess(error(got, expected), 1e-5 if is_sum else 1e-3)

    def test_rows_terms_columns_and_parts(self):
        for rows, terms, columns, parts in (
            (1, 256, (64,), 1),
            (3, 256, (80,), 2),
            (16, 1024, (64,), 8),
            (8, 300, (130,), 2),
            (2, 777, (65,), 4),
        ):
            with self.subTest(rows=rows, terms=terms, columns=columns):
                self.check(rows, terms, columns, parts)

    def test_several_weights(self):
        for columns in ((64, 200), (70, 64, 129), (64, 65, 66, 300)):
            for parts in (1, 2):
                with self.subTest(columns=columns, parts=parts):
                    self.check(5, 512, columns, parts, has_bias=True)
                    self.check(5, 512, columns, parts)


def block(x, w1, w2, w3):
    """A gated layer with its residual sum."""
    return x + (functional.silu(x @ w1) * (x @ w2)) @ w3


def block_inputs(rows=4, width=256, inner=512, dtype=torch.float16):
    def weight(a, b):
        return (torch.randn(b, a) / a**0.5).to(dtype).t()

    x = torch.randn(rows, width, dtype=dtype)
    return x, weight(width, inner), weight(width, inner), weight(inner, width)


class Graphs(unittest.TestCase):
    def setUp(self):
        patched = mock.patch.object(few_rows, "JOINED_NBYTES_MIN", 0)
        patched.start()
        self.addCleanup(patched.stop)

    def split(self, function, *inputs):
        """(the graph, the same with split products, launches)"""
        module = graph_of(function, *inputs)
        form = program_forms.Form("split", splits=True)
        with mock.patch.object(program_forms, "processors_of", lambda _: PROCESSORS):
            try:
                made = form.of(module, lambda small, fakes: lambda given: small(*given))
            except program_forms.NoForm:
                return module, None, []
        calls = [
            node for node in made.graph.nodes if getattr(node.target, "namespace", "") == NAMESPACE
        ]
        return module, made, calls

    def test_products_of_the_same_rows_are_one_launch(self):
        inputs = block_inputs()
        module, made, calls = self.split(block, *inputs)
        self.assertEqual([len(one.args) for one in calls], [3, 2])
        names = [operator_name(node) for node in made.graph.nodes]
        self.assertNotIn("mm", names)
        expected = block(*(one.double() for one in inputs))
        own = error(module(*inputs), expected)
        self.assertLess(error(made(*inputs), expected), 1.2 * own + 1e-4)

    def test_views_of_the_same_rows_are_one_launch(self):
        x, w, v, _ = block_inputs()

        def function(x, w, v):
            one, other = x.view(4, 256), x.transpose(0, 1).reshape(4, 256)
            return torch.relu(one @ w) + torch.relu(other @ v)

        x = x.view(4, 1, 256)
        module, made, calls = self.split(function, x, w, v)
        self.assertEqual([len(one.args) for one in calls], [3])
        self.assertLess(error(made(x, w, v), module(x, w, v)), 4e-3)

    def test_a_bias(self):
        for width, is_split in ((256, True), (2048, False)):
            x, *_ = block_inputs()
            weight = torch.randn(width, 256, dtype=x.dtype).t()
            bias = torch.randn(width, dtype=x.dtype)
            function = lambda *given: functional.gelu(torch.addmm(*given))  # noqa: E731
            module, made, (call,) = self.split(function, bias, x, weight)
            self.assertEqual(len(call.args), 2 if is_split else 3)
            got, expected = made(bias, x, weight), module(bias, x, weight)
            self.assertLess(error(got, expected), 4e-3)

    def test_what_stays_the_library_s(self):
        x, w, *_ = block_inputs()
        other = torch.randn(17, 256, dtype=x.dtype)
        for name, function, inputs in (
            ("more rows", lambda x, w: torch.relu(x @ w), (other, w)),
            ("float32", lambda x, w: torch.relu(x @ w), (x.float(), w.float())),
            ("few terms", lambda x, w: torch.relu(x[:, :128].contiguous() @ w[:128]), (x, w)),
            ("weights by rows", lambda x, w: torch.relu(x @ w.contiguous()), (x, w)),
            ("a scaled sum", lambda x, w: torch.relu(torch.addmm(w[0], x, w, beta=2)), (x, w)),
        ):
            with self.subTest(name):
                self.assertEqual(self.split(function, *inputs)[2], [])

    def test_the_kernel_adds_the_parts_for_other_readers(self):
        x, w, v, _ = block_inputs()
        cache = torch.randn(4, 64, 512, dtype=x.dtype)

        def append(x, w, cache):
            return torch.cat([cache, (x @ w)[:, None]], 1) * 2

        for name, function, inputs in (
            ("a large reader", append, (x, w, cache)),
            ("the program's result", lambda x, w: x @ w, (x, w)),
            ("the library", lambda x, w, v: (x @ w) @ v.t(), (x, w, v.t().contiguous().t())),
        ):
            with self.subTest(name):
                module, made, calls = self.split(function, *inputs)
                self.assertEqual([len(one.args) for one in calls], [0, 3])
                self.assertLess(error(made(*inputs), module(*inputs)), 4e-3)
                self.assertLess(error(made(*inputs), module(*inputs)), 4e-3)  # with new counters

    def test_views_that_hold_other_rows(self):
        _, w, v, _ = block_inputs()
        x = torch.randn(4, 16, 16, dtype=w.dtype)

        def reshaped(x, w, v):
            one, other = x.reshape(4, 256), x.permute(0, 2, 1).reshape(4, 256)
            return torch.relu(one @ w) + torch.relu(other @ v)

        def retyped(x, w, v):
            other = x.view(torch.bfloat16).view(4, 256)
            return torch.relu(x.view(4, 256) @ w).float() + torch.relu(other @ v)

        for function, inputs in (
            (reshaped, (x, w, v)),
            (retyped, (torch.rand_like(x) * 1e-3, w, v.bfloat16())),
        ):
            with self.subTest(function.__name__):
                candidates = [
                    few_rows._group_key(node)
                    for node in graph_of(function, *inputs).graph.nodes
                    if few_rows._is_candidate(node)
                ]
                self.assertEqual(len(set(candidates)), 2)
        module, made, calls = self.split(reshaped, x, w, v)
        self.assertEqual(len(calls), 2)
        self.assertLess(error(made(x, w, v), module(x, w, v)), 4e-3)

    def test_rows_that_the_kernel_could_not_address(self):
        with torch._subclasses.FakeTensorMode():
            for shape, strides, is_taken in (
                ((8, 4096), (1 << 24, 1), True),
                ((8, 4096), (1 << 29, 1), False),
                ((8, 4096), (0, 1), False),
                ((8, 4096), (4096, 2), False),
                ((1, 4096), (1 << 40, 1), True),
            ):
                one = torch.empty_strided(shape, strides, dtype=torch.float16)
                with self.subTest(strides=strides):
                    self.assertEqual(few_rows._is_by_rows(one), is_taken)

    def test_no_rows(self):
        x, w, *_ = block_inputs()
        self.assertEqual(self.split(lambda x, w: torch.relu(x @ w), x[:0], w)[2], [])

    def test_two_devices(self):
        x, w, *_ = block_inputs()
        graph = graph_of(lambda x, w: torch.relu(x @ w) + torch.relu((x + 1) @ w), x, w).graph
        self.assertEqual(len(few_rows.launches_of(graph, PROCESSORS)), 2)
        one = next(node for node in graph.nodes if few_rows._is_candidate(node))
        elsewhere = mock.Mock(wraps=one.meta["val"], device=torch.device("meta"))
        with mock.patch.dict(one.meta, val=elsewhere):
            with mock.patch.object(few_rows, "_is_candidate", lambda node: node.op != "output"):
                self.assertEqual(few_rows.launches_of(graph, PROCESSORS), [])

    def test_the_library_computes_if_the_kernel_fails(self):
        inputs = block_inputs()
        x, w, *_ = inputs
        for function, given in ((block, inputs), (lambda x, w: x @ w, (x, w))):
            module, made, calls = self.split(function, *given)
            self.assertTrue(calls)
            with mock.patch.object(few_rows, "_launch", side_effect=RuntimeError("no compiler")):
                self.assertLess(error(made(*given), module(*given)), 4e-3)

    def test_a_small_product_that_only_the_kernel_could_add_stays(self):
        x, w, *_ = block_inputs()
        for bytes_min, count in ((w.numel() * 2, 2), (w.numel() * 2 + 1, 0)):
            with mock.patch.object(few_rows, "JOINED_NBYTES_MIN", bytes_min):
                self.assertEqual(len(self.split(lambda x, w: x @ w, x, w)[2]), count)

    def test_a_wide_product_is_one_part(self):
        x, *_ = block_inputs()
        weight = torch.randn(2048, 256, dtype=x.dtype).t()
        module, made, (call,) = self.split(lambda x, w: x @ w, x, weight)
        self.assertEqual(call.meta["val"].dtype, x.dtype)
        self.assertLess(error(made(x, weight), module(x, weight)), 4e-3)

    def test_weights_that_are_computed_are_not_moved(self):
        x, w, v, _ = block_inputs()

        def function(x, w, v):
            y = torch.relu(x @ w)
            return y + torch.relu(x @ (v * y.mean()))

        module, made, calls = self.split(function, x, w, v)
        self.assertEqual([len(one.args) for one in calls], [2, 2])
        self.assertLess(error(made(x, w, v), module(x, w, v)), 1e-2)

    def test_parts_follow_the_processors(self):
        for blocks, terms, processors, expected in (
            (16, 1024, 132, 8),
            (16, 4096, 132, 8),
            (64, 4096, 132, 2),
            (224, 4096, 132, 1),
            (1, 1 << 20, 132, few_rows.PARTS_MAX),
            (12, 768, 132, 6),
            (24, 8960, 132, 5),
            (16, 256, 132, 2),
            (60, 4096, 66, 1),
        ):
            with self.subTest(blocks=blocks, terms=terms):
                self.assertEqual(few_rows.parts_of(blocks, terms, processors), expected)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(256)
        self.up, self.gate = nn.Linear(256, 512), nn.Linear(256, 512)
        self.down = nn.Linear(512, 256)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Programs(IncumbentCase):
    def test_a_program_computes_by_them(self):
        self.patch(region_search, "chosen", lambda *_: [])  # kernels would replace them
        self.patch(program_forms, "DEVICES", ("cpu",))
        self.patch(program_forms, "processors_of", lambda _: PROCESSORS)
        launched = mock.Mock(side_effect=few_rows._launch)
        self.patch(few_rows, "_launch", launched)
        net = Decoder().half().eval()
        x = torch.randn(3, 1, 256, dtype=torch.float16)
        with torch.no_grad():
            mine = self.compiled(net)
            mine(x)
            launched.reset_mock()
            self.assertTrue(weft.verify(net, mine, [x]))
        (program,) = self.programs()
        self.assertEqual(program.state, "ready", self.reasons())
        self.assertIn(program_forms.SPLIT, program.summary)
        self.assertTrue(launched.mock_calls)


if __name__ == "__main__":
    unittest.main()
