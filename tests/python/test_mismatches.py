"""The elements that a wrong verdict shows: the first beyond the tolerance, or
the farthest where none is by itself."""

import math
import unittest

import torch

from weft.expect.compare import compare, expect
from weft.expect.mismatches import MOST, first


def expectation(shape=(8, 4), dtype=torch.float32):
    torch.manual_seed(0)
    wide = torch.rand(shape, dtype=torch.float64) + 1
    return expect("y", wide.to(dtype), wide)


def changed(made, **elements):
    """The framework's answer, but for {flat place: value}."""
    got = made.framework.clone()
    for place, value in elements.items():
        got.reshape(-1)[int(place[1:])] = value
    return got


class Mismatches(unittest.TestCase):
    def test_what_is_right_has_none(self):
        made = expectation()
        self.assertFalse(compare(made.framework, made).reason)
        self.assertEqual(first(made.framework, made), [])

    def test_wrong_elements_are_told_in_their_order(self):
        made = expectation()
        got = changed(made, _30=9.0, _5=7.0, _6=math.nan)
        told = first(got, made)
        self.assertEqual([one["index"] for one in told], [[1, 1], [1, 2], [7, 2]])
        self.assertEqual([one["got"] for one in told], ["7", "nan", "9"])
        self.assertEqual(told[1]["error"], "inf")
        self.assertAlmostEqual(float(told[0]["expected"]), float(made.wide[1, 1]), places=6)
        self.assertGreater(float(told[0]["error"]), 1)
        self.assertEqual({one["output"] for one in told}, {"y"})

    def test_no_more_than_a_few_of_a_large_result(self):
        made = expectation((600, 1000))
        told = first(torch.zeros_like(made.framework), made)
        self.assertEqual([one["index"] for one in told], [[0, column] for column in range(MOST)])
        last = changed(made, _599999=0.0)
        self.assertEqual([one["index"] for one in first(last, made)], [[599, 999]])

    def test_errors_that_only_add_up_show_the_farthest(self):
        made = expectation((64, 64))
        made.tolerance = 1e-2
        got = made.framework * (1 + 1e-3)
        got[3, 5] *= 1.002
        self.assertIn("root mean square", compare(got, made).reason)
        told = first(got, made)
        self.assertEqual(told[0]["index"], [3, 5])
        self.assertEqual(len(told), MOST)
        errors = [float(one["error"]) for one in told]
        self.assertEqual(errors, sorted(errors, reverse=True))

    def test_integers_and_booleans_have_no_error(self):
        made = expect("at", torch.tensor([[1, 2], [3, 2**60]]), None)
        got = torch.tensor([[1, 5], [3, 2**60 + 1]])
        self.assertEqual(
            first(got, made),
            [
                {"output": "at", "index": [0, 1], "expected": "2", "got": "5", "error": ""},
                {
                    "output": "at",
                    "index": [1, 1],
                    "expected": str(2**60),
                    "got": str(2**60 + 1),
                    "error": "",
                },
            ],
        )
        flags = expect("is", torch.tensor([True, False]), None)
        told = first(torch.tensor([True, True]), flags)
        self.assertEqual(
            [(one["index"], one["expected"], one["got"]) for one in told], [([1], "False", "True")]
        )

    def test_half_formats_and_another_shape(self):
        made = expectation(dtype=torch.float16)
        self.assertEqual(first(changed(made, _2=0.5), made)[0]["got"], "0.5")
        self.assertEqual(first(torch.zeros(3), made), [])


if __name__ == "__main__":
    unittest.main()
