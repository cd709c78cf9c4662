"""random_(from, to) is captured and draws eager's numbers."""

from __future__ import annotations

import unittest

import torch
from capture_case import CaptureTest, simple

from weft.capture import capture
from weft.capture.random_integers import RandomIntegers

CALLS = (
    "x.random_(0, 5)",
    "x.t().random_(-3, 9)",
    "x[:, ::2].random_(2, to=7)",
    "x.half().random_(0, 100)",
    "x.long().random_(2**40, 2**41)",
    "x.bool().random_(0, 2)",
    "x.random_(7)",
    "x.random_()",
)


class Integers(CaptureTest):
    def test_eager_s_numbers(self) -> None:
        for call in CALLS:
            with self.subTest(call=call):
                found = []
                for mode in (RandomIntegers(), torch.enable_grad()):
                    torch.manual_seed(1)
                    with mode:
                        found.append(eval(call, {"x": torch.randn(40, 60)}))
                self.assertEqual(found[0].stride(), found[1].stride())
                self.assertTrue(torch.equal(*found))

    def test_models_with_them_are_captured(self) -> None:
        for call in CALLS[:6]:
            with self.subTest(call=call):
                reply = capture.reply_of(
                    self.write(simple(f"x = x + 1\nreturn {call} * 2")), self.out
                )
                self.assertTrue(reply["ok"], reply)

    def test_python_s_error_is_named_internal(self) -> None:
        reply = capture.reply_of(self.write(simple("return x.clone().random_(3, None)")), self.out)
        self.assertIn("internal error of torch.export", reply["error"]["message"])


if __name__ == "__main__":
    unittest.main()
