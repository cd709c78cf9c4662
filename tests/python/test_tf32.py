"""The error of TF32 in products, emulated on the CPU."""

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
            compare.expect(
                "y",
                run(self.x, self.w),
                run(self.x.double(), self.w.double()) if has_wide else None,
            )
            for _ in range(2)
        )
        for one in self.lossy:
            compare.allow(allowed, one)
        return strict, allowed

    def test_ten_bits_of_a_mantissa_are_left(self):
        values = torch.tensor([1 + 2**-10 + 2**-11, -1.0, math.inf, 0.0])
        self.assertEqual(tf32.cut(values).tolist(), [1 + 2**-10, -1.0, math.inf, 0.0])
        self.assertEqual(tf32.rounded(values).tolist(), [1 + 2 * 2**-10, -1.0, math.inf, 0.0])
        for lose in (tf32.cut, tf32.rounded):
            self.assertTrue(lose(torch.tensor([math.nan])).isnan().all())
        self.assertEqual(values[0], 1 + 2**-10 + 2**-11)

    def test_products_lose_bits_and_nothing_else(self):
        a, b = torch.rand(9, 9), torch.rand(9, 9)
        for run, loses in (
            (lambda: a @ b, True),
            (lambda: a * b, False),
            (lambda: F.conv2d(self.x, self.w), True),
            (lambda: torch.addmm(a, a, b), True),
        ):
            made = []
            tf32.with_losses(HOST, run, made.append)
            for lossy in made:
                self.assertEqual(torch.equal(lossy, run()), not loses)
        made = []  # what is added keeps its bits
        tf32.with_losses(HOST, lambda: torch.addmm(a, b * 0, b), made.append)
        for lossy in made:
            self.assertTrue(torch.equal(lossy, a))

    def test_by_default_the_frameworks_own_error_is_the_measure(self):
        exact, _ = self.expected()
        for lossy in self.lossy:
            self.assertTrue(compare.compare(lossy, exact).reason)
        truth = F.conv2d(self.x.double(), self.w.double())
        for lossy in self.lossy:  # where the framework has TF32, kernels may
            like_it = compare.expect("y", lossy, truth)
            compare.framework_used_tf32(like_it)
            found = [compare.compare(x, like_it) for x in (*self.lossy, F.conv2d(self.x, self.w))]
            self.assertEqual([x.reason for x in found], ["", "", ""])
            self.assertEqual(
                [compare.precision_shown(x, like_it) for x in found], ["tf32", "tf32", "float32"]
            )
            halves = F.conv2d(self.x.bfloat16(), self.w.bfloat16()).float()
            self.assertTrue(compare.compare(halves, like_it).reason)

    def test_few_elements_of_the_frameworks_own_excuse_no_tf32(self):
        """One beyond a threshold where float64 is not: the largest error is a
        whole step then, and what all err together is still held."""
        self.x = torch.randn(4, 16, 32, 32)
        self.w = torch.randn(16, 16, 3, 3)

        def step(y):
            return (y > 0).float()

        exact, _ = self.expected(step)
        framework = exact.framework.clone()
        framework.view(-1)[0] = 1 - framework.view(-1)[0]
        made = compare.expect("y", framework, exact.wide)
        self.assertGreater(made.tolerance, 1)
        self.assertFalse(compare.compare(exact.framework, made).reason)
        for lossy in self.lossy:
            self.assertIn("root mean square", compare.compare(lossy, made).reason)

    def test_it_is_known_whether_the_framework_used_it(self):
        exact = F.conv2d(self.x, self.w)
        self.expected()
        self.assertTrue(tf32.was_used(self.lossy, [exact, exact]))
        again = F.conv2d(self.x.flip(1), self.w.flip(1))
        self.assertFalse(torch.equal(exact, again))
        self.assertFalse(tf32.was_used([again], [exact]))
        self.assertFalse(tf32.was_used([exact * 0], [exact * 0]))

    def test_flags_are_as_they_were_after_forbidding(self):
        flags = torch.backends.cudnn, torch.backends.cuda.matmul
        before = [f.allow_tf32 for f in flags]
        with tf32.forbidden():
            self.assertEqual([f.allow_tf32 for f in flags], [False, False])
        self.assertEqual([f.allow_tf32 for f in flags], before)

    def test_asked_for_a_kernel_may_lose_what_it_does_and_not_much_more(self):
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
        self.assertFalse(tf32.is_asked(torch.device("cpu")))

    def test_products_are_known_by_their_names(self):
        for name in (
            "aten.mm.default",
            "aten.convolution.default",
            "aten.addmm.default",
            "aten._cudnn_rnn.default",
        ):
            self.assertTrue(tf32.multiplies([name]), name)
        for name in (
            "aten.add.Tensor",
            "aten.mul.Tensor",
            "getitem",
            "aten.mean.dim",
            "aten.comm.default",
        ):
            self.assertFalse(tf32.multiplies([name]), name)
        self.assertTrue(tf32.convolves(["aten.mm.default", "aten.convolution.default"]))
        self.assertFalse(tf32.convolves(["aten.mm.default"]))


if __name__ == "__main__":
    unittest.main()
