"""ctc_loss stays one call, whatever its lengths are, and gives eager's loss."""

from __future__ import annotations

import unittest

import torch
from capture_case import HEADER, CaptureTest
from torch import nn
from torch.nn import functional

from weft.capture.ctc_loss import ctc_loss

PROBLEM = (
    HEADER
    + """
class Model(nn.Module):
    def forward(self, x, y, a, b):
        x = x.log_softmax(-1)
        return {loss}

def get_inputs():
    lengths = torch.tensor([9, 8, 7]), torch.tensor([3, 2, 4])
    return [torch.randn(9, 3, 6), torch.randint(1, 6, (3, 4)), *lengths]

def get_init_inputs():
    return []
"""
)


class CtcLoss(CaptureTest):
    def calls(self, loss: str) -> list[str]:
        """The graph's calls; capture has compared its run with eager's."""
        return [
            target
            for target in self.targets(self.capture(PROBLEM.format(loss=loss)))
            if "ctc" in target
        ]

    def test_lengths_that_are_tensors(self) -> None:
        for loss in (
            "F.ctc_loss(x, y, a, b, reduction='none') * 2",
            "nn.CTCLoss(zero_infinity=True)(x, y, a, b)",
            "torch.ctc_loss(x[:, 0], y[0, :3], a[0], b[0], 0, 2)",
        ):
            with self.subTest(loss=loss):
                self.assertEqual(self.calls(loss), ["aten.ctc_loss.Tensor"])

    def test_lengths_that_are_lists(self) -> None:
        for loss in (
            "F.ctc_loss(x, y, [9, 8, 9], [3, 2, 4], 0, 'none')",
            "F.ctc_loss(x.double(), y, (9, 8, 9), (3, 2, 4))",
        ):
            with self.subTest(loss=loss):
                self.assertEqual(self.calls(loss), ["aten.ctc_loss.IntList"])

    def test_the_recorded_loss_looks_like_eager_s(self) -> None:
        x = torch.randn(9, 3, 6, dtype=torch.float64).log_softmax(-1)
        y = torch.randint(1, 6, (3, 4))
        a, b = torch.tensor([9, 8, 7]), torch.tensor([3, 2, 4])
        given = ((x, y, a, b), (x[:, 0], y[0, :3], a[0], b[0]), (x[:, :1], y[:1], a[:1], b[:1]))
        for tensors in given:
            for reduction in ("none", "mean", "sum"):
                wanted = functional.ctc_loss(*tensors, reduction=reduction)
                with torch.no_grad():
                    got = ctc_loss(*tensors, reduction=reduction)
                self.assertEqual(
                    (got.shape, got.dtype, got.stride()),
                    (wanted.shape, wanted.dtype, wanted.stride()),
                )

    def test_one_tensor_and_one_list_are_left_to_eager(self) -> None:
        x, y = torch.randn(9, 3, 6), torch.randint(1, 6, (3, 4))
        self.assertIsNone(ctc_loss(x, y, torch.tensor([9, 8, 7]), [3, 2, 4]))
        with self.assertRaises(TypeError):
            nn.CTCLoss()(x, y, torch.tensor([9, 8, 7]), [3, 2, 4])


if __name__ == "__main__":
    unittest.main()
