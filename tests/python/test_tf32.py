"""What TF32 may cost a convolution, on the CPU, where nobody uses it."""

import math
import types
import unittest

import torch
import torch.nn.functional as F

from weft_worker import compare, tf32


class Tf32(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.x, self.w = torch.rand(2, 8, 12, 12), torch.randn(16, 8, 3, 3)
        self.exact = F.conv2d(self.x.double(), self.w.double())

    def lossy(self):
        return tf32.with_losses(None, lambda: F.conv2d(self.x, self.w))

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
        for product in tf32.with_losses(None, lambda: a @ a):
            self.assertTrue(torch.equal(product, a @ a))
        exact = F.conv2d(self.x, self.w)
        for lossy in self.lossy():
            self.assertFalse(torch.equal(lossy, exact))

    def test_a_kernel_may_lose_what_tf32_does_and_not_much_more(self):
        framework = F.conv2d(self.x, self.w)
        strict = compare.expect("y", framework, self.exact)
        allowed = compare.expect("y", framework, self.exact, 1, self.lossy())
        for lossy in self.lossy():
            self.assertTrue(compare.compare(lossy, strict).reason)
            self.assertFalse(compare.compare(lossy, allowed).reason)
        halves = F.conv2d(self.x.bfloat16(), self.w.bfloat16()).float()
        self.assertTrue(compare.compare(halves, allowed).reason)

    def test_the_host_has_no_tf32(self):
        self.assertFalse(tf32.is_allowed(types.SimpleNamespace(is_cuda=False)))

    def test_convolutions_are_known_by_their_names(self):
        self.assertTrue(tf32.convolves(["aten.mm.default",
                                        "aten.convolution.default"]))
        self.assertFalse(tf32.convolves(["aten.mm.default"]))


if __name__ == "__main__":
    unittest.main()
