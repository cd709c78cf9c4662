"""Kernels for the `triton` target whose batch is an argument, or whose batch and
length are: one text, run by Triton's interpreter and compared with PyTorch at
several of them.

Needs the program triton_codegen_cli (tests/compiler/tools): its path is in
WEFT_TRITON_CODEGEN, or it stands in build/.
"""

import triton_kernels  # first: it tells Triton to interpret

import tempfile
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
import triton.language as tl

import captured_cases
from any_size_case import AnySize, HugeCounts, cases, pair_cases, refused_pair_cases, scans
from kernel_cases import numbers
from sized_cases import at_size, growing


def products(batch):
    """(name, function, inputs): sums of products with what is fused to them; the
    size is that of rows, of columns or of the batch of a product."""
    rows, few = numbers(batch, 48), numbers(batch, 24)
    deep = numbers(batch, 5, 24)
    sequences = numbers(3, batch, 24)
    weight, bias = numbers(40, 48, seed=1), numbers(40, seed=2)
    narrow = numbers(18, 24, seed=3)
    return [
        ("linear", lambda x, w, b: F.gelu(F.linear(x.tanh(), w, b)) * 2, (rows, weight, bias)),
        ("many_columns", lambda x, w: F.linear(x, w).relu(), (few, numbers(300, 24))),
        ("long_sums", lambda x, w: x @ w, (numbers(batch, 600), numbers(600, 32))),
        ("sixteen_columns", lambda x, w: (x @ w).sigmoid(), (rows, numbers(48, 16))),
        ("transposed", lambda x, w: (w @ x.t()).relu() + 1, (rows, weight)),
        (
            "folded_afterwards",
            lambda x, w, b: F.linear(x, w, b).softmax(-1) + b,
            (rows, weight, bias),
        ),
        (
            "two_in_turn",
            lambda x, v, w: F.linear(F.linear(x, v).relu(), w),
            (few, numbers(48, 24, seed=4), weight),
        ),
        (
            "rows_of_sequences",
            lambda x, w, y: F.linear(x, w).relu() + y,
            (deep, narrow, numbers(batch, 5, 18)),
        ),
        ("sequences", lambda x, w: F.silu(F.linear(x * 2, w)), (sequences, narrow)),
        ("sequences_by_matrices", lambda x, y: (x @ y).relu(), (sequences, numbers(3, 24, 18))),
        (
            "batches",
            lambda x, y: (x.exp() @ y - 1).relu(),
            (numbers(batch, 20, 24), numbers(batch, 24, 18)),
        ),
        (
            "heads",
            lambda x, y: (x @ y.transpose(-1, -2)).softmax(-1),
            (numbers(batch, 2, 17, 16), numbers(batch, 2, 19, 16)),
        ),
        (
            "einsum",
            lambda x, y: torch.einsum("bik,bjk->bji", x, y) * 2,
            (numbers(batch, 18, 24), numbers(batch, 20, 24)),
        ),
        (
            "added",
            lambda x, y, z: torch.baddbmm(z, x, y, beta=2, alpha=3),
            (numbers(batch, 20, 24), numbers(batch, 24, 18), numbers(batch, 20, 18)),
        ),
        ("by_vector", lambda x, v: (x @ v).relu(), (rows, numbers(48))),
        ("thin", lambda x, w: F.linear(x, w).relu(), (rows, numbers(3, 48))),
        ("summed_over", lambda x, y: (x.t() @ y).relu(), (rows, numbers(batch, 40))),
        ("squared", lambda x: (x @ x.t()).relu(), (rows,)),
        (
            "attention",
            lambda q, k, v: (q @ k.transpose(1, 2) * 0.2).softmax(-1) @ v,
            (sequences, sequences * 2, sequences + 1),
        ),
    ]


def refused_products(batch):
    return [
        ("windows", lambda x, w: F.conv1d(x, w).relu(), (numbers(batch, 4, 20), numbers(8, 4, 3))),
    ]


def pair_products(batch, length):
    """Of a batch and a length: both are rows, or one is the product's batch."""
    deep = numbers(batch, length, 24)
    narrow = numbers(18, 24, seed=3)
    return [
        (
            "rows",
            lambda x, w, b: F.gelu(F.linear(x.tanh(), w, b)) * 2,
            (deep, narrow, numbers(18, seed=2)),
        ),
        ("rows_of_batches", lambda x, y: (x.exp() @ y - 1).relu(), (deep, numbers(batch, 24, 18))),
        (
            "columns_of_batches",
            lambda x, y: (y @ x.transpose(1, 2)).sigmoid(),
            (deep, numbers(batch, 18, 24)),
        ),
        ("summed_over", lambda x: (x.transpose(1, 2) @ x).relu(), (deep,)),
        (
            "attention",
            lambda q, k: (q @ k.transpose(1, 2)).softmax(-1) @ k,
            (deep, numbers(batch, length, 24, seed=5)),
        ),
    ]


def refused_pair_products(batch, length):
    deep = numbers(batch, length, 24)
    return [
        ("windows", lambda x, w: F.conv1d(x.transpose(1, 2), w).relu(), (deep, numbers(8, 24, 3)))
    ]


class Interpreted:
    """For AnySize."""

    @staticmethod
    def generate(graphs):
        cli = captured_cases.program("triton_codegen_cli", "WEFT_TRITON_CODEGEN")
        return captured_cases.generate(graphs, [cli, "132", "16"])

    def built(self, texts):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return {name: triton_kernels.load(text, folder.name) for name, text in texts.items()}

    def run_kernel(self, kernel, graph, inputs, sizes):
        return triton_kernels.run(kernel, (*inputs, *sizes))

    def kernel_of(self, name, wide=False):
        text = self.answers[name]["variants"][0]["text"]
        if wide:
            self.assertIn("> 1 << 30", text)
            text = text.replace("> 1 << 30", "> 30")
        return self.built({name: text})[name]


class InterpretedCases(Interpreted, AnySize):
    def test_no_kernel_holds_the_size_that_it_was_captured_at(self):
        for name, one, other in self.sources_of_other_captures():
            with self.subTest(name):
                self.assertEqual(
                    [source["text"].partition("\nBATCHES")[0] for source in one],
                    [source["text"].partition("\nBATCHES")[0] for source in other],
                )


class TritonAnySize(InterpretedCases, unittest.TestCase):
    #: Few: an interpreter takes its time.
    SIZES = ((1,), (67,))

    def test_a_number_that_grows_is_as_wide_as_it_needs(self):
        """It may be larger than any tensor."""
        (answer,) = self.generate(
            [
                graph
                for _, graph in growing(
                    lambda n: [("scaled", lambda x: x * (n * n), (numbers(n),))]
                )
            ]
        )
        self.assertRegex(answer["variants"][0]["text"], r"widest = max\(.*\(batch \* batch\)")

    def test_positions_of_64_bits_are_as_right(self):
        for name, function, inputs in cases(13):
            if name not in (
                "softmax",
                "pooled",
                "turned_batch",
                "windows",
                "joined_batches",
                "flattened",
                "running_sums",
                "running_sums_of_batch",
            ):
                continue
            with self.subTest(name):
                got = self.run_kernel(
                    self.kernel_of(name, wide=True), at_size(self.graphs[name], 13), inputs, (13,)
                )
                wanted = captured_cases.as_list(function(*inputs))
                for one, want in zip(got, wanted, strict=True):
                    torch.testing.assert_close(one, want, rtol=1e-5, atol=1e-5)

    def test_a_row_that_grows_is_walked(self):
        """Few and long: each a loop to a number that is an argument."""

        def walked(batch):
            return [
                (
                    "walked",
                    lambda x, y: x.sum((1, 2))[:, None, None] + y,
                    (numbers(2, 24, 18), numbers(2, batch, 20)),
                )
            ]

        ((name, graph),) = growing(walked)
        (answer,) = self.generate([graph])
        self.assertEqual(answer.get("error", ""), "")
        text = answer["variants"][0]["text"]
        self.assertIn("in range(0, (20 * batch)", text)
        kernel = self.built({name: text})[name]
        for batch in (1, 67):
            ((_, function, inputs),) = walked(batch)
            (got,) = self.run_kernel(kernel, at_size(graph, batch), inputs, (batch,))
            torch.testing.assert_close(got, function(*inputs), rtol=1e-5, atol=1e-5)

    def test_a_scan_of_what_grows_carries_from_tile_to_tile(self):
        for batch in (256, 2051):  # tiles of columns are short
            for name, function, inputs in scans(batch):
                if batch > 256 and name != "running_sums_of_rows_of_batch":
                    continue
                with self.subTest(name, batch=batch):
                    (got,) = self.run_kernel(
                        self.kernel_of(name), at_size(self.graphs[name], batch), inputs, (batch,)
                    )
                    want = function(*(one.double() for one in inputs))
                    torch.testing.assert_close(got.to(want.dtype), want, rtol=1e-5, atol=2e-4)

    def test_positions_have_64_bits_where_32_may_not_do(self):
        function = self.kernel_of("wide_rows")
        kernel = mock.MagicMock()
        with mock.patch.dict(function.__globals__, kernel0=kernel):
            for batch, integer in ((1 << 20, tl.int32), (1 << 21, tl.int64)):
                function(torch.empty(batch, 1000, device="meta"), batch)
                launched = kernel.__getitem__.return_value.call_args
                self.assertEqual(launched.kwargs["integer"], integer)
                self.assertEqual(launched.kwargs["batch"], batch)


class TritonHugeCounts(Interpreted, HugeCounts, unittest.TestCase):
    pass


class TritonProductsAnySize(InterpretedCases, unittest.TestCase):
    SIZES = ((1,), (13,), (67,))
    #: Of sums of some hundred terms, in another order than the framework's.
    TOLERANCE = {"rtol": 1e-4, "atol": 2e-4}
    CASES = staticmethod(products)
    REFUSED = staticmethod(refused_products)

    def test_products_are_on_the_matrix_units_whatever_grows(self):
        for name, answer in self.answers.items():
            for source in answer["variants"]:
                with self.subTest(name, variant=source["variant"]):
                    self.assertEqual("tl.dot(" in source["text"], name not in ("by_vector", "thin"))

    def test_every_variant_is_right(self):
        for name, function, inputs in products(67):
            if name not in ("linear", "many_columns", "batches"):
                continue
            wanted = function(*inputs)
            graph = at_size(self.graphs[name], 67)
            for source in self.answers[name]["variants"]:
                with self.subTest(name, variant=source["variant"]):
                    kernel = self.built({name: source["text"]})[name]
                    (got,) = self.run_kernel(kernel, graph, inputs, (67,))
                    torch.testing.assert_close(got, wanted, **self.TOLERANCE)

    def test_positions_of_64_bits_are_as_right(self):
        for name, function, inputs in products(13):
            with self.subTest(name):
                (got,) = self.run_kernel(
                    self.kernel_of(name, wide=True), at_size(self.graphs[name], 13), inputs, (13,)
                )
                torch.testing.assert_close(got, function(*inputs), **self.TOLERANCE)


class TritonAnyTwoSizes(InterpretedCases, unittest.TestCase):
    SIZES = ((1, 1), (5, 19), (19, 5))
    SYMBOLS = 2
    CASES = staticmethod(pair_cases)
    REFUSED = staticmethod(refused_pair_cases)

    def test_both_sizes_are_arguments_of_one_kernel(self):
        text = self.answers["rows"]["variants"][0]["text"]
        self.assertIn('@triton.jit(do_not_specialize=["batch", "sequence"])', text)
        self.assertIn("def inputs_at(batch, sequence):", text)
        self.assertIn("batch=batch, sequence=sequence, integer=integer", text)
        self.assertIn("\nBATCHES = ((8, 10), (1, 1), (1, 17), (13, 1), (13, 8), (24, 72))\n", text)


class TritonProductsAnyTwoSizes(InterpretedCases, unittest.TestCase):
    SIZES = ((1, 1), (5, 19), (19, 5))
    TOLERANCE = {"rtol": 1e-4, "atol": 2e-4}
    SYMBOLS = 2
    CASES = staticmethod(pair_products)
    REFUSED = staticmethod(refused_pair_products)


if __name__ == "__main__":
    unittest.main()
