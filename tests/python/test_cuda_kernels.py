"""Every operator that the compiler lowers for the `cuda` target: the printed
kernels themselves, run on the processor, against PyTorch in float64.

Needs the program cuda_codegen_cli (tests/compiler/tools): its path is in
WEFT_CUDA_CODEGEN, or it stands in build/. On a GPU: tests/gpu/cuda_kernels.py.
"""

import unittest

import torch

import captured_cases
import cuda_cases
import test_gathered_gradients as gathered
from cuda_on_host import CudaVariant
from kernel_cases import KernelCases, OneReader, half_cases, residual_cases

# Every case with the first source; what else there is for a part of them.
# Multiprocessors and shared memory decide who shares a row, and how.
VARIANTS = (
    CudaVariant("first", 0, 1, multiprocessors=132),
    CudaVariant("others", 1, 16, multiprocessors=132, step=6),
    CudaVariant("few multiprocessors", 0, 2, multiprocessors=4, first=1, step=6),
    CudaVariant("little shared memory", 0, 2, multiprocessors=20, first=2, step=6, shared=40 << 10),
)


class CudaKernels(KernelCases, unittest.TestCase):
    variants = VARIANTS
    groups = [cuda_cases.without_slow(group) for group in cuda_cases.GROUPS]


class CudaWindows(KernelCases, unittest.TestCase):
    variants = (CudaVariant("few multiprocessors", 0, 1, multiprocessors=2),)
    groups = [cuda_cases.window_cases]
    rounding = 4  # sums of products, each in its own order


class CudaStencilTiles(KernelCases, unittest.TestCase):
    variants = (CudaVariant("one multiprocessor", 0, 1, multiprocessors=1),)
    groups = [cuda_cases.strip_cases]

    def test_these_are_strips(self):
        cases = cuda_cases.strip_cases()
        cli = captured_cases.program("cuda_codegen_cli", "WEFT_CUDA_CODEGEN")
        answers = captured_cases.generate(captured_cases.graphs_of(cases), [cli, "1", "1"])
        plain = [
            case[0]
            for case, answer in zip(cases, answers)
            if "PartialVector<" not in answer["variants"][0]["text"]
        ]
        self.assertEqual(plain, [])


class CudaStreams(KernelCases, unittest.TestCase):
    variants = (
        CudaVariant("few multiprocessors", 0, 1, multiprocessors=3),
        CudaVariant("little shared memory", 0, 1, multiprocessors=20, shared=72 << 10),
    )
    groups = [cuda_cases.stream_cases]


class CudaMoments(KernelCases, unittest.TestCase):
    variants = (
        CudaVariant("first", 0, 1, multiprocessors=132),
        CudaVariant("few multiprocessors", 0, 1, multiprocessors=3),
    )
    groups = [cuda_cases.moment_cases]


class CudaLogarithms(KernelCases, unittest.TestCase):
    variants = (CudaVariant("first", 0, 1, multiprocessors=132),)
    groups = [cuda_cases.logarithm_cases]

    def check(self, kernel, function, inputs):
        (got,) = kernel(inputs)
        truth = function(inputs[0].double())
        unit = torch.finfo(torch.float32).eps * 2.0 ** (truth.abs().log2().floor().nan_to_num(0))
        off = (got.double() - truth).abs() / unit
        wrong = ~((got == truth) | (got.isnan() & truth.isnan()) | (off <= 1))
        self.assertFalse(
            wrong.any(),
            f"log({inputs[0][wrong][:4].tolist()}): {off[wrong][:4].tolist()} units off",
        )


class CudaHalves(KernelCases, unittest.TestCase):
    variants = (
        CudaVariant("first", 0, 1, multiprocessors=132),
        CudaVariant("few multiprocessors", 0, 6, multiprocessors=3),
    )
    groups = [half_cases]


class CudaKept(OneReader, KernelCases, unittest.TestCase):
    variants = (CudaVariant("first", 0, 1, multiprocessors=132),)
    reads_last = "(in7 + "


class CudaKeptWhereMemoryIsSlow(KernelCases, unittest.TestCase):
    groups = (residual_cases,)
    variants = (CudaVariant("slow memory", 0, 2, multiprocessors=132, memory=1e-4),)
    rounding = 40  # a softmax of a norm of a sum, each in its own order


class CudaGatheredGradients(KernelCases, unittest.TestCase):
    variants = (CudaVariant("first", 0, 1, multiprocessors=132),)
    groups = [gathered.some_cases]


class CudaScans(KernelCases, unittest.TestCase):
    variants = VARIANTS[:3]
    groups = [cuda_cases.movement.scan_cases]
    rounding = 20  # long sums, added up in another order


if __name__ == "__main__":
    unittest.main()
