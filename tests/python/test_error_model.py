"""When an output is the reference's: docs/verdict.md, "The error model"."""

import os
import sys
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tools", "python")
sys.path[:0] = [PACKAGES]

from weft_worker import compare  # noqa: E402


class ErrorModel(unittest.TestCase):
    def test_either_answer_is_right_where_float64_and_framework_part(self):
        made = compare.expect(
            "y", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]).double()
        )
        made.tolerance = 1e-6
        for value in (2.0, 3.0):
            got = torch.tensor([1.0, value])
            self.assertFalse(compare.compare(got, made).reason)
        self.assertTrue(compare.compare(torch.tensor([1.0, 2.5]), made).reason)

    def test_a_tie_may_be_broken_either_way(self):
        made = compare.expect("i", torch.tensor([0]), torch.tensor([0]))
        made.operand = torch.tensor([[5.0, 1.0, 5.0]]).double()
        made.operand_dim = 1
        self.assertFalse(compare.compare(torch.tensor([2]), made).reason)
        self.assertTrue(compare.compare(torch.tensor([1]), made).reason)
        self.assertTrue(compare.compare(torch.tensor([9]), made).reason)

    def test_a_nan_may_be_an_infinity_but_never_a_number(self):
        truth = torch.tensor([float("nan"), 1.0])
        made = compare.expect("y", truth, truth.double())
        for value, is_right in ((float("-inf"), True), (0.0, False)):
            got = torch.tensor([value, 1.0])
            self.assertEqual(not compare.compare(got, made).reason, is_right)

    def test_infinities_must_have_the_right_sign(self):
        truth = torch.tensor([float("inf"), 1.0])
        made = compare.expect("y", truth, truth.double())
        self.assertFalse(compare.compare(truth, made).reason)
        self.assertTrue(compare.compare(-truth, made).reason)

    def test_one_element_beyond_a_threshold_excuses_no_others(self):
        apart = compare.expect(
            "y", torch.tensor([1.0, -1.0]), torch.tensor([1.0, 1.0]).double())
        self.assertGreater(apart.tolerance, 1)
        made = compare.near(torch.tensor([1.0, 1.0]), apart)
        self.assertTrue(compare.compare(torch.zeros(2), made).reason)
        self.assertTrue(compare.compare(torch.tensor([1.0, 1.0001]), made).reason)
        self.assertFalse(compare.compare(torch.ones(2), made).reason)


if __name__ == "__main__":
    unittest.main()
