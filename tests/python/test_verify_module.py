"""weft.verify: a verdict on somebody's own functions and data, in their process."""

import collections
import copy
import unittest

import torch
from backend_case import BackendCase, Net
from torch import nn

import weft


class Verify(BackendCase):
    def test_a_module_is_itself_and_no_other(self):
        net, x = Net(), torch.randn(4, 12)
        verdict = weft.verify(net, copy.deepcopy(net), [x])
        self.assertTrue(verdict, verdict)
        other = copy.deepcopy(net)
        with torch.no_grad():
            other.scale[3] *= 1.01
        verdict = weft.verify(net, other, [x])
        self.assertFalse(verdict)
        self.assertGreater(verdict.error, verdict.tolerance)
        self.assertIn("shape", weft.verify(net, lambda x: net(x)[:2], [x]).reason)
        self.assertIn("raised", weft.verify(net, lambda x: x.nothing, x).reason)

    def test_an_input_that_is_written_is_seen(self):
        self.assertFalse(weft.verify(lambda x: x + 1, lambda x: x.add_(1), torch.ones(3)))

    def test_what_differs_is_named(self):
        x, pair = torch.ones(3), collections.namedtuple("Pair", "a b")
        for mine, said in (
            (lambda x: [x, x], "it returns [*, *] instead of (*, *)"),
            (lambda x: pair(x, x), "it returns Pair(a=*, b=*) instead of (*, *)"),
            (lambda x: {"a": x}, "it returns {'a': *} instead of (*, *)"),
            (lambda x: (x.clone(), x.mul_(2)), "output argument 0 after the call[0]"),
        ):
            with self.subTest(said):
                self.assertIn(said, weft.verify(lambda x: (x.clone(), x * 2), mine, [x]).reason)
        self.assertIn(
            "its arguments are [[[*, *]], {}] after the call instead of [[[*]]",
            weft.verify(lambda x: x[0] + 1, lambda x: x.append(x[0]) or x[0] + 1, [[x]]).reason,
        )

    def test_keywords_are_given_to_both(self):
        x, far = torch.ones(3), {"kwargs": {"by": 3.0}}
        self.assertTrue(weft.verify(lambda x, by: x * by, lambda x, by: by * x, [x], **far))
        self.assertFalse(weft.verify(lambda x, by: x * by, lambda x, by: x * 2, [x], **far))

    def test_one_that_writes_nothing_finds_nothing(self):
        for count in (4, 100, 300, 1000, 3000, 10000):
            for _ in range(5):
                self.assertFalse(weft.verify(torch.cosh, torch.empty_like, torch.randn(count)))

    def test_what_becomes_of_buffers_is_held(self):
        norm, x = nn.BatchNorm1d(8), torch.randn(32, 8)
        other = copy.deepcopy(norm)
        self.assertTrue(weft.verify(norm, other, x))
        self.assertTrue(weft.verify(norm, torch.compile(other, backend="eager"), x))
        self.assertEqual(int(norm.num_batches_tracked), 0)
        for one in (norm, other):
            self.assertFalse(one.running_mean.any())
        self.assertTrue(weft.verify(norm, lambda x: copy.deepcopy(other)(x), x))
        other.forward = lambda x: nn.functional.batch_norm(
            x, None, None, other.weight, other.bias, True
        )
        self.assertIn("buffer running_mean", weft.verify(norm, other, x).reason)

    def test_random_numbers_are_left_alone(self):
        state = torch.get_rng_state()
        weft.verify(nn.Dropout(), nn.Dropout(), torch.ones(100))
        self.assertTrue(torch.equal(torch.get_rng_state(), state))


if __name__ == "__main__":
    unittest.main()
