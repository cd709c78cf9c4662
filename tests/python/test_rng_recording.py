"""A model's float64 run computes with the numbers that it draws in float32."""

import os
import sys
import tempfile
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path[:0] = [PACKAGES]

from weft.expect.rng_recording import Give, Take  # noqa: E402
from weft.judge.whole_model import WholeModel  # noqa: E402
from weft.problem.widen import wide_default  # noqa: E402

NOISY = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x + DRAWN, 1).cumsum(1)


def get_inputs():
    return [torch.randn(8, 64)]


def get_init_inputs():
    return []
"""


def given_again(draw, x):
    """What `draw` gives of x, and then of x in float64."""
    drawn = []
    torch.manual_seed(1)
    with Take(drawn, x.device):
        narrow = draw(x)
    with wide_default(), Give(drawn):
        return narrow, draw(x.double())


class Draws(unittest.TestCase):
    X = torch.arange(1.0, 65)

    def test_float64_draws_what_float32_drew(self):
        for draw in (
            torch.rand_like,
            torch.randn_like,
            lambda x: torch.rand(3),
            lambda x: torch.randperm(9),
            lambda x: torch.empty_like(x).bernoulli_(0.3),
            lambda x: torch.rand(64, out=torch.empty(64)),
            lambda x: torch.empty_like(x).exponential_(),
            lambda x: torch.nn.functional.dropout(x, 0.3),
        ):
            narrow, wide = given_again(draw, self.X)
            torch.testing.assert_close(wide.float(), narrow.float())
            if narrow.is_floating_point():
                self.assertEqual(wide.dtype, torch.float64)

    def test_a_fused_dropout_keeps_its_mask_and_computes_wide(self):
        for p, trains in ((0.0, True), (0.3, True), (1.0, True), (0.3, None), (0.3, False)):
            (narrow, mask), (wide, again) = given_again(
                lambda x: torch.native_dropout(x / 3, p, trains), self.X
            )
            self.assertTrue(torch.equal(mask, again))
            torch.testing.assert_close(wide, narrow.double())
            scale = 1 / (1 - p) if trains is not False and p < 1 else 1.0
            self.assertTrue(torch.equal(wide, self.X.double() / 3 * mask * scale))

    def test_who_draws_otherwise_or_in_another_order_is_told(self):
        for draw in (lambda x: torch.rrelu(-x, training=True), lambda x: torch.normal(x, 1.0)):
            with self.assertRaises(LookupError):
                given_again(draw, self.X)
        drawn = []
        with Take(drawn, self.X.device):
            torch.rand(3)
        with self.assertRaises(LookupError), Give(drawn):
            torch.randn(3)


class DrawingModels(unittest.TestCase):
    def expected(self, drawn):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "problem.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(NOISY.replace("DRAWN", drawn))
            whole = WholeModel(path, 1)
        case = whole.case("wide", whole.device.generator(1))
        return whole, case.outputs[0]

    def test_a_model_that_draws_is_held_against_float64(self):
        for drawn in ("torch.randn_like(x)", "torch.rand(64)"):
            with self.subTest(drawn):
                whole, output = self.expected(drawn)
                self.assertTrue(whole._uses_float64)
                self.assertGreater(output.framework_error, 0)
                self.assertLess(output.framework_error, 1e-4)

    def test_what_might_draw_and_does_not_keeps_float64(self):
        attention = "torch.nn.functional.scaled_dot_product_attention(*[x[None, None]] * 3)[0, 0]"
        for drawn in (
            attention,
            "torch.rrelu(x, training=False)",
            "torch.native_dropout(x, 0.3, False)[0]",
            attention + " + torch.rand(64)",
        ):
            with self.subTest(drawn):
                whole, output = self.expected(drawn)
                self.assertTrue(whole._uses_float64)
                self.assertGreater(output.framework_error, 0)

    def test_one_that_draws_otherwise_has_the_framework_s_answer(self):
        whole, output = self.expected("torch.rrelu(x, training=True)")
        self.assertFalse(whole._uses_float64)
        self.assertEqual(output.framework_error, 0)


if __name__ == "__main__":
    unittest.main()
