"""Right backward passes whose gradients cancel are not refused for an unlucky
draw of rounding, and wrong ones are."""

import os
import sys
import tempfile
import unittest
from functools import partial
from unittest import mock

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path[:0] = [PACKAGES]

from weft.expect import compare, perturbed_runs  # noqa: E402
from weft.judge.whole_model import WholeModel  # noqa: E402

#: The gradient of a layer's weight before a batch norm over 8 samples.
PROBLEM = """import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(8, 16))

    def forward(self, x, gradient):
        weight = self.weight.detach().requires_grad_()
        with torch.enable_grad():
            y = F.batch_norm(F.linear(x, weight), None, None, training=True)
        return torch.autograd.grad(y, weight, gradient)[0]


def get_inputs():
    return [torch.rand(8, 16), torch.randn(8, 8)]


def get_init_inputs():
    return []
"""


def step(weight, x, gradient, rounded=lambda tensor: tensor):
    """The same in float32, by formulas, in another order of operations."""
    z = rounded(x) @ rounded(weight).t()
    centred = z - z.sum(0) / 8
    scale = 1 / (centred.square().sum(0) / 8 + 1e-5).sqrt()
    normed = centred * scale
    along = (gradient * normed).sum(0) / 8
    of_z = (gradient - gradient.sum(0) / 8 - normed * along) * scale
    return (rounded(x).t() @ rounded(of_z)).t().contiguous()


def row_off(weight, x, gradient):
    found = step(weight, x, gradient)
    found[3] *= 1.01
    return found


def in_bfloat16(tensor):
    return tensor.bfloat16().float()


def in_tf32(tensor):
    bits = tensor.contiguous().view(torch.int32) + 0x1000
    return (bits & ~0x1FFF).view(torch.float32)


class PerturbedRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "problem.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROBLEM)
            cls.whole = WholeModel(path, 0)

    def refused(self, candidate, distribution, seeds):
        """In how many of so many draws."""
        return sum(self._is_refused(candidate, distribution, seed) for seed in range(seeds))

    def _is_refused(self, candidate, distribution, seed):
        case = self.whole.case(distribution, self.whole.device.generator(seed))
        got = candidate(case.data.state[0], *case.data.leaves)
        draws = perturbed_runs.PerturbedRuns(case.outputs, partial(self.whole.expect_scaled, case))
        return draws.first_reason([got]) != ""

    def test_a_right_gradient_that_cancels_is_not_refused(self):
        self.assertEqual(self.refused(step, "edges", 30), 0)
        with mock.patch.object(perturbed_runs, "COUNT", 0):  # by one draw
            self.assertGreater(self.refused(step, "edges", 30), 0)

    def test_wrong_ones_are(self):
        for candidate in (
            row_off,
            partial(step, rounded=in_bfloat16),
            partial(step, rounded=in_tf32),
        ):
            self.assertEqual(self.refused(candidate, "given", 4), 4)

    def test_who_is_far_beyond_a_bound_asks_for_none(self):
        y = torch.ones(4)
        for times, asked in ((1.5, 1), (2 * perturbed_runs.NEAR, 0)):
            made = compare.expect("y", y, y.double())
            expect = mock.Mock(return_value=[made])
            draws = perturbed_runs.PerturbedRuns([made], expect)
            got = y + 2 * times * made.tolerance
            self.assertTrue(draws.first_reason([got]))
            self.assertEqual(expect.call_count > 0, asked)

    def test_a_draw_of_the_framework_s_error_widens_each_bound(self):
        def made(error, rows=(1.0, 1.0)):
            wide = torch.ones(2, 64).double() * torch.tensor(rows)[:, None]
            return compare.expect("y", (wide * (1 + error)).float(), wide)

        one, other = made(1e-6), made(1e-3)
        got = (one.wide * (1 + 3e-3)).float()
        self.assertIn("error", compare.compare(got, one).reason)
        compare.learn(one, other)
        self.assertEqual(
            (one.tolerance, one.rms_tolerance, one.slices.tolerance),
            (other.tolerance, other.rms_tolerance, other.slices.tolerance),
        )
        self.assertEqual(compare.compare(got, one).reason, "")

    def test_outside_the_model_s_domain_there_are_none(self):
        y = torch.ones(4)
        made = compare.expect("y", y, y.double())
        expect = mock.Mock(side_effect=RuntimeError("no probability"))
        draws = perturbed_runs.PerturbedRuns([made], expect)
        got = y + 3 * made.tolerance
        for _ in range(2):
            self.assertTrue(draws.first_reason([got]))
        self.assertEqual(expect.call_count, 1)


if __name__ == "__main__":
    unittest.main()
