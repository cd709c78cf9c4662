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
        self.assertEqual((got.dtype, got.shape, got.stride()),
                         (wanted.dtype, wanted.shape, wanted.stride()))
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)

    def test_eager_s_values_in_every_shape(self) -> None:
        for dtype in DTYPES:
            for shape in SHAPES:
                x = torch.randn(shape).to(dtype)
                with self.subTest(dtype=dtype, shape=shape), \
                        warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # no degrees of freedom
                    with Covariances():
                        got = (torch.cov(x), x.cov(correction=0),
                               torch.cov(input=x, correction=9),
                               torch.corrcoef(x), x.corrcoef())
                    wanted = (torch.cov(x), x.cov(correction=0),
                              torch.cov(x, correction=9),
                              torch.corrcoef(x), x.corrcoef())
                    for one, other in zip(got, wanted, strict=True):
                        self.assert_equal(one, other)

    def test_with_weights_it_is_eager_s_own(self) -> None:
        x, weights = torch.randn(3, 5), torch.rand(5)
        with Covariances():
            got = torch.cov(x, aweights=weights)
        self.assert_equal(got, torch.cov(x, aweights=weights))

    def test_models_with_them_are_captured(self) -> None:
        for call in ("torch.cov(x)", "x.cov(correction=0)", "torch.corrcoef(x)",
                     "torch.cov(x[0])"):
            with self.subTest(call=call):
                reply = capture.reply_of(
                    self.write(simple(f"return {call} * 2")), self.out)
                self.assertTrue(reply["ok"], reply)

    def test_weights_are_refused_in_one_sentence(self) -> None:
        reply = capture.reply_of(self.write(simple(
            "return torch.cov(x, aweights=x[0].abs())")), self.out)
        self.assertFalse(reply["ok"])
        self.assertNotIn("Traceback", reply["error"]["message"])
        self.assertIn("depends on the values of a tensor",
                      reply["error"]["message"])


if __name__ == "__main__":
    unittest.main()
