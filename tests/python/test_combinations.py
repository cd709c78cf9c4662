"""torch.combinations is captured, and gives what eager gives."""

from __future__ import annotations

import unittest

import torch
from capture_case import CaptureTest, simple

from weft.capture import capture
from weft.capture.combinations import Combinations


class CombinationsOfAVector(CaptureTest):
    def test_eager_s_values(self) -> None:
        for length in (0, 1, 2, 5):
            for r in (0, 1, 2, 3):
                for again in (False, True):
                    for x in (torch.randn(length), torch.arange(2 * length)[::2]):
                        with self.subTest(length=length, r=r, again=again):
                            wanted = torch.combinations(x, r, again)
                            with Combinations():
                                got = torch.combinations(x, r, with_replacement=again)
                            self.assertEqual(
                                (got.dtype, got.shape, got.stride()),
                                (wanted.dtype, wanted.shape, wanted.stride()),
                            )
                            self.assertTrue(torch.equal(got, wanted))

    def test_eager_s_errors(self) -> None:
        for x, r in ((torch.randn(3), -1), (torch.randn(2, 3), 2)):
            with self.assertRaises(RuntimeError) as wanted:
                torch.combinations(x, r)
            with Combinations(), self.assertRaises(RuntimeError) as got:
                torch.combinations(x, r)
            self.assertEqual(str(got.exception), str(wanted.exception))

    def test_models_with_them_are_captured(self) -> None:
        for call in (
            "torch.combinations(x[0])",
            "torch.combinations(x[:, 0], 3, with_replacement=True)",
            "torch.combinations(input=x[0].int())",
        ):
            with self.subTest(call=call):
                reply = capture.reply_of(self.write(simple(f"return {call} * 2")), self.out)
                self.assertTrue(reply["ok"], reply)

    def test_too_many_are_refused_in_one_sentence(self) -> None:
        reply = capture.reply_of(
            self.write(simple("return torch.combinations(x.new_ones(200), 2)")), self.out
        )
        self.assertFalse(reply["ok"])
        self.assertIn("depends on the values of a tensor", reply["error"]["message"])


if __name__ == "__main__":
    unittest.main()
