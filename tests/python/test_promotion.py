"""Operands are promoted as PyTorch promotes them: every binary operator with a
number, a tensor without dimensions and a vector, of every pair of data types,
in each target's kernels."""

from __future__ import annotations

import tempfile
import unittest
from typing import Any

# Before torch, which may look for Triton.
import triton_kernels

import torch

import captured_cases
import promotion_cases
from cpu_kernels import CpuVariant
from cuda_on_host import CudaVariant
from weft_case import IS_LONG

#: Without the long tests, one case in so many.
ONE_IN = 1 if IS_LONG else 23
#: Why a case may have no kernel: the operator or the type stays PyTorch's.
REASONS = (
    "dtype",
    "of integers",
    "of truth values",
    "a function that the",
    "no rule",
    "by such a divisor",
    "pow of integers",
)


def units_off(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest difference, in units of the last digit of eager's result, or of
    1 where that is smaller."""
    eps = torch.finfo(want.dtype).eps
    got, want = got.double(), want.double()
    same = (got == want) | (got.isnan() & want.isnan())
    off = (got - want).abs() / (want.abs().clamp(min=1) * eps)
    return float(torch.where(same, 0.0, off).max())


class Promotion(unittest.TestCase):
    def check(self, variant: Any, dtypes: tuple[torch.dtype, ...], lowered_min: float) -> None:
        """Builds and compares a target's kernels; `lowered_min` is the part of
        the cases that must have one."""
        cases = promotion_cases.cases(dtypes, ONE_IN)
        graphs = captured_cases.graphs_of(cases)
        answers = variant.generate(graphs, ())
        lowered = []
        for case, graph, answer in zip(cases, graphs, answers, strict=True):
            if "error" not in answer:
                lowered.append((case, graph, answer))
                continue
            with self.subTest(case=case.name):
                self.assertTrue(
                    any(reason in answer["error"] for reason in REASONS), answer["error"]
                )
        self.assertGreaterEqual(len(lowered), lowered_min * len(cases))
        with tempfile.TemporaryDirectory() as folder:
            built = variant.build(
                [graph for _, graph, _ in lowered], [answer for _, _, answer in lowered], folder
            )
            for (case, _, _), functions in zip(lowered, built, strict=True):
                (function,) = functions.values()
                with self.subTest(case=case.name):
                    self.compare(case, function(list(case.inputs))[0])

    def compare(self, case: promotion_cases.Case, got: torch.Tensor) -> None:
        want = case.function(*case.inputs)
        self.assertEqual(got.dtype, want.dtype)
        self.assertEqual(got.shape, want.shape)
        if case.is_exact or not want.dtype.is_floating_point:
            self.assertTrue(
                torch.equal(got.nan_to_num(), want.nan_to_num())
                if want.dtype.is_floating_point
                else torch.equal(got, want),
                f"{got} for {want} of eager",
            )
        else:
            # A last digit of float32, which halves hardly ever show.
            self.assertLessEqual(units_off(got, want), 1 if want.dtype.itemsize == 2 else 16)

    def test_triton(self) -> None:
        self.check(
            triton_kernels.TritonVariant("promotion", 0, 1, 132), promotion_cases.LOWERED, 0.5
        )

    def test_cuda(self) -> None:
        self.check(CudaVariant("promotion", 0, 1, 132), promotion_cases.LOWERED, 0.5)

    def test_processor(self) -> None:
        self.check(CpuVariant("promotion", 0, 2, 64, 0, 1, "-O1"), promotion_cases.LOWERED[2:], 0.3)

    def test_short_integers_are_refused_by_their_type(self) -> None:
        cases = promotion_cases.cases(promotion_cases.REFUSED, 101)
        graphs = captured_cases.graphs_of(cases)
        for variant in (
            triton_kernels.TritonVariant("refused", 0, 1, 132),
            CudaVariant("refused", 0, 1, 132),
        ):
            for case, answer in zip(cases, variant.generate(graphs, ()), strict=True):
                with self.subTest(case=case.name):
                    self.assertIn("dtype", answer.get("error", ""))


if __name__ == "__main__":
    unittest.main()
