"""Integer outputs: exact, but where PyTorch itself is unsure."""

import unittest

import torch

from weft.expect.compare import compare, expect


def expectation(unsure):
    """100 indices of which float64 sees `unsure` otherwise."""
    framework = torch.arange(100)
    wide = framework.clone()
    wide[:unsure] += 1
    return expect("picked", framework, wide)


def with_wrong(count):
    """The framework's answer, but for the last `count`: nobody's answer."""
    got = torch.arange(100)
    got[100 - count :] = 1000
    return got


class Indices(unittest.TestCase):
    def test_one_wrong_index_is_wrong_where_the_framework_is_sure(self):
        self.assertTrue(compare(with_wrong(1), expectation(0)).reason)

    def test_either_answer_is_right_where_float64_differs(self):
        made = expectation(5)
        self.assertFalse(compare(made.framework, made).reason)
        self.assertFalse(compare(made.wide, made).reason)

    def test_as_many_may_differ_as_the_framework_gets_wrong_and_no_more(self):
        self.assertFalse(compare(with_wrong(5), expectation(5)).reason)
        self.assertTrue(compare(with_wrong(6), expectation(5)).reason)

    def test_without_float64_every_index_must_be_the_frameworks(self):
        made = expect("picked", torch.arange(100), None)
        self.assertTrue(compare(with_wrong(1), made).reason)


if __name__ == "__main__":
    unittest.main()
