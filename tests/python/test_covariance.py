"""cov and corrcoef are captured, and computed as in eager, to the bit."""

from __future__ import annotations

import unittest
import warnings

import torch
from capture_case import CaptureTest, simple

from weft.capture import capture
from weft.capture.covariance import Covariances

SHAPES = ((4, 8), (8,), (1, 5), (3, 1), (), (4, 0), (0, 4), (5, 64))
DTYPES = (torch.float32, torch.float64, torch.bfloat16)


class Covariance(CaptureTest):
    def assert_equal(self, got: torch.Tensor, wanted: torch.Tensor) -> None:
        self.assertEqual(
            (got.dtype, got.shape, got.stride()), (wanted.dtype, wanted.shape, wanted.stride())
        )
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)

    def test_eager_s_values_in_every_shape(self) -> None:
        for dtype in DTYPES:
            for shape in SHAPES:
                x = torch.randn(shape).to(dtype)
                with self.subTest(dtype=dtype, shape=shape), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # no degrees of freedom
                    with Covariances():
                        got = (
                            torch.cov(x),
                            x.cov(correction=0),
                            torch.cov(input=x, correction=9),
                            torch.corrcoef(x),
                            x.corrcoef(),
                        )
                    wanted = (
                        torch.cov(x),
                        x.cov(correction=0),
                        torch.cov(x, correction=9),
                        torch.corrcoef(x),
                        x.corrcoef(),
                    )
                    for one, other in zip(got, wanted, strict=True):
                        self.assert_equal(one, other)

    def test_eager_s_values_with_weights(self) -> None:
        counts = torch.tensor([1, 2, 0, 3, 1])
        for dtype in (*DTYPES, torch.int32, torch.uint8):
            x = torch.randint(0, 9, (3, 5)).to(dtype)
            for weights in (torch.rand(5), torch.rand(5, dtype=torch.float64)):
                for given in (
                    {"fweights": counts},
                    {"aweights": weights},
                    {"fweights": counts, "aweights": weights},
                ):
                    for correction in (0, 1, 50):
                        with self.subTest(dtype=dtype, given=list(given), correction=correction):
                            self.judge_weights(x, correction, given)

    def judge_weights(
        self, x: torch.Tensor, correction: int, weights: dict[str, torch.Tensor]
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no degrees of freedom
            wanted = torch.cov(x, correction=correction, **weights)
        with Covariances():
            got = torch.cov(x, correction=correction, **weights)
        self.assert_equal(got, wanted)

    def test_eager_s_values_of_integers(self) -> None:
        for dtype in (torch.int64, torch.int16, torch.uint8):
            x = torch.randint(0, 9, (3, 7)).to(dtype)
            with Covariances():
                got = torch.cov(x), torch.corrcoef(x)
            for one, other in zip(got, (torch.cov(x), torch.corrcoef(x)), strict=True):
                self.assert_equal(one, other)

    def test_models_with_them_are_captured(self) -> None:
        for call in (
            "torch.cov(x)",
            "x.cov(correction=0)",
            "torch.corrcoef(x)",
            "torch.cov(x[0])",
            "torch.cov(x, aweights=x[0].abs())",
            "torch.cov(x.int(), fweights=x[0].int().abs() + 1)",
            "torch.corrcoef(x.int())",
        ):
            with self.subTest(call=call):
                reply = capture.reply_of(self.write(simple(f"return {call} * 2")), self.out)
                self.assertTrue(reply["ok"], reply)


if __name__ == "__main__":
    unittest.main()
