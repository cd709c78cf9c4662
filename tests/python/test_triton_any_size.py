"""Kernels for the `triton` target whose batch is an argument: one text, run by
Triton's interpreter and held against the framework at several batches.

Needs the program triton_codegen_cli (tests/compiler/tools): its path is in
WEFT_TRITON_CODEGEN, or it stands in build/.
"""

import triton_kernels  # first: it tells Triton to interpret

import tempfile
import unittest
from unittest import mock

import torch
import triton.language as tl

import captured_cases
from any_size_case import AnySize, cases
from sized_cases import at_size


class TritonAnySize(AnySize, unittest.TestCase):
    #: Few: an interpreter takes its time.
    BATCHES = (1, 67)

    @staticmethod
    def generate(graphs):
        cli = captured_cases.program("triton_codegen_cli",
                                     "WEFT_TRITON_CODEGEN")
        return captured_cases.generate(graphs, [cli, "132", "16"])

    def built(self, texts):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return {name: triton_kernels.load(text, folder.name)
                for name, text in texts.items()}

    def run_kernel(self, kernel, graph, inputs, batch):
        return triton_kernels.run(kernel, (*inputs, batch))

    def kernel_of(self, name, wide=False):
        text = self.answers[name]["variants"][0]["text"]
        if wide:
            self.assertIn("> 1 << 30", text)
            text = text.replace("> 1 << 30", "> 30")
        return self.built({name: text})[name]

    def test_positions_of_64_bits_are_as_right(self):
        for name, function, inputs in cases(13):
            if name not in ("softmax", "pooled", "turned_batch", "windows",
                            "joined_batches", "flattened", "running_sums"):
                continue
            with self.subTest(name):
                got = self.run_kernel(self.kernel_of(name, wide=True),
                                      at_size(self.graphs[name], 13), inputs,
                                      13)
                wanted = captured_cases.as_list(function(*inputs))
                for one, want in zip(got, wanted, strict=True):
                    torch.testing.assert_close(one, want, rtol=1e-5, atol=1e-5)

    def test_positions_have_64_bits_where_32_may_not_do(self):
        function = self.kernel_of("wide_rows")
        kernel = mock.MagicMock()
        with mock.patch.dict(function.__globals__, kernel0=kernel):
            for batch, integer in ((1 << 20, tl.int32), (1 << 21, tl.int64)):
                function(torch.empty(batch, 1000, device="meta"), batch)
                launched = kernel.__getitem__.return_value.call_args
                self.assertEqual(launched.kwargs["integer"], integer)
                self.assertEqual(launched.kwargs["batch"], batch)

    def test_no_kernel_holds_the_size_that_it_was_captured_at(self):
        for name, one, other in self.sources_of_other_captures():
            with self.subTest(name):
                self.assertEqual(
                    [source["text"].partition("\nBATCHES")[0] for source in one],
                    [source["text"].partition("\nBATCHES")[0]
                     for source in other])


if __name__ == "__main__":
    unittest.main()
