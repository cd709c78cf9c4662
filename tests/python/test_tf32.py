"""What TF32 may cost a convolution, on the CPU, where nobody uses it."""

import math
import unittest

import torch
import torch.nn.functional as F

from weft.expect import compare, tf32
from weft.device.device import HOST


class Tf32(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.x, self.w = torch.rand(2, 8, 12, 12), torch.randn(16, 8, 3, 3)

    def expected(self, after=lambda y: y, has_wide=True):
        """Of that behind a convolution, as it is and with TF32 allowed."""
        def run(x, w):
            return after(F.conv2d(x, w)).to(x.dtype)

        self.lossy = []
        tf32.with_losses(HOST, lambda: run(self.x, self.w), self.lossy.append)
        strict, allowed = (
            compare.expect("y", run(self.x, self.w),
                           run(self.x.double(), self.w.double())
                           if has_wide else None)
            for _ in range(2))
        for one in self.lossy:
            compare.allow(allowed, one)
        return strict, allowed

    def test_ten_bits_of_a_mantissa_are_left(self):
        values = torch.tensor([1 + 2**-10 + 2**-11, -1.0, math.inf, 0.0])
        self.assertEqual(tf32.cut(values).tolist(),
                         [1 + 2**-10, -1.0, math.inf, 0.0])
        self.assertEqual(tf32.rounded(values).tolist(),
                         [1 + 2 * 2**-10, -1.0, math.inf, 0.0])
        for lose in (tf32.cut, tf32.rounded):
            self.assertTrue(lose(torch.tensor([math.nan])).isnan().all())
        self.assertEqual(values[0], 1 + 2**-10 + 2**-11)

    def test_only_convolutions_lose_bits(self):
        a = torch.rand(9, 9)
        products = []
        tf32.with_losses(HOST, lambda: a @ a, products.append)
        for product in products:
            self.assertTrue(torch.equal(product, a @ a))
        self.expected()
        for lossy in self.lossy:
            self.assertFalse(torch.equal(lossy, F.conv2d(self.x, self.w)))

    def test_a_kernel_may_lose_what_tf32_does_and_not_much_more(self):
        strict, allowed = self.expected()
        for lossy in self.lossy:
            self.assertTrue(compare.compare(lossy, strict).reason)
            self.assertFalse(compare.compare(lossy, allowed).reason)
        halves = F.conv2d(self.x.bfloat16(), self.w.bfloat16()).float()
        self.assertTrue(compare.compare(halves, allowed).reason)

    def test_without_float64_the_frameworks_answer_is_what_loses(self):
        strict, allowed = self.expected(has_wide=False)
        for lossy in self.lossy:
            self.assertTrue(compare.compare(lossy, strict).reason)
            self.assertFalse(compare.compare(lossy, allowed).reason)
        halves = F.conv2d(self.x.bfloat16(), self.w.bfloat16()).float()
        for wrong in (halves, torch.zeros_like(halves)):
            self.assertTrue(compare.compare(wrong, allowed).reason)

    def test_few_elements_beyond_a_threshold_do_not_excuse_the_rest(self):
        self.x = torch.randn(2, 16, 32, 32)
        self.w = torch.randn(16, 16, 3, 3)
        for after in (lambda y: y > 0, F.hardshrink):
            _, allowed = self.expected(after)
            self.assertGreater(allowed.tolerance, 0.1)
            for lossy in self.lossy:
                self.assertFalse(compare.compare(lossy, allowed).reason)
            zeros = torch.zeros_like(allowed.framework)
            self.assertTrue(compare.compare(zeros, allowed).reason)

    def test_the_host_has_no_tf32(self):
        self.assertFalse(tf32.is_allowed(torch.device("cpu")))

    def test_convolutions_are_known_by_their_names(self):
        self.assertTrue(tf32.convolves(["aten.mm.default",
                                        "aten.convolution.default"]))
        self.assertFalse(tf32.convolves(["aten.mm.default"]))


if __name__ == "__main__":
    unittest.main()
