"""Kernels for the `cpu` target whose batch is a parameter, or whose batch and
length are: one text, compared with PyTorch at many, 1 and primes among them.

Needs the program cpu_codegen_cli (tests/compiler/tools): its path is in
WEFT_CPU_CODEGEN, or it stands in build/.
"""

import ctypes
import tempfile
import unittest

import captured_cases
import cpu_kernels
import torch
from any_size_case import AnySize, HugeCounts, pair_cases, refused_pair_cases
from kernel_cases import numbers
from sized_cases import growing


class Compiled:
    """For AnySize."""

    @staticmethod
    def generate(graphs):
        cli = captured_cases.program("cpu_codegen_cli", "WEFT_CPU_CODEGEN")
        return captured_cases.generate(graphs, [cli, "2", "64", "16"])

    def built(self, texts):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        flags = [
            "-O1" if flag == "-O3" else flag for flag in next(iter(self.answers.values()))["flags"]
        ]
        loaded = cpu_kernels.load(list(texts.values()), flags, folder.name, "any")
        return dict(zip(texts, loaded))

    def run_kernel(self, kernel, graph, inputs, sizes):
        function, library = kernel

        def call(*addresses):
            function(*addresses, *map(ctypes.c_int64, sizes))

        return cpu_kernels.run(call, graph, getattr(library, "kernel_outside", None), inputs)


class CpuAnySize(Compiled, AnySize, unittest.TestCase):
    SIZES = ((1,), (2,), (3,), (7,), (8,), (13,), (64,), (129,), (1031,))

    def test_no_text_holds_the_size_that_it_was_captured_at(self):
        for name, one, other in self.sources_of_other_captures():
            with self.subTest(name):
                self.assertTrue(one == other)


class CpuAnyTwoSizes(CpuAnySize):
    SIZES = ((1, 1), (1, 13), (13, 1), (2, 3), (8, 8), (7, 129), (129, 7), (64, 32), (3, 1031))
    SYMBOLS = 2
    CASES = staticmethod(pair_cases)
    REFUSED = staticmethod(refused_pair_cases)


class CpuHugeCounts(Compiled, HugeCounts, unittest.TestCase):
    pass


class PositionsThatGrow(unittest.TestCase):
    def test_they_are_not_compared_in_32_bits(self):
        """There are 2^31 of them from a size of 46,341 on."""
        (answer,) = Compiled.generate(
            [
                graph
                for _, graph in growing(
                    lambda n: [
                        (
                            "positions",
                            lambda x: torch.where(torch.arange(n * n).view(n, n) > 5, x, 0.0).sum(
                                1
                            ),
                            (numbers(n),),
                        )
                    ]
                )
            ]
        )
        text = answer["variants"][0]["text"].partition("kernel_function")[2]
        self.assertIn("positions(", text)
        self.assertNotIn("small_positions(", text)


if __name__ == "__main__":
    unittest.main()
