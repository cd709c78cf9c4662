"""Random numbers that are drawn into a tensor are eager's, in every layout."""

from __future__ import annotations

import unittest

from capture_case import CaptureTest, simple

from weft.capture import capture

#: normal_ draws 16 numbers or more in another order if they are contiguous.
LAYOUTS = {
    "dense": "torch.rand(4, 6)",
    "gaps": "torch.rand(4, 12)[:, ::2]",
    "gaps, an odd number": "torch.rand(19, 3)[:, 1]",
    "few": "torch.rand(10)[::2]",
    "transposed": "torch.rand(6, 4).t()",
    "transposed gaps": "torch.rand(8, 12)[::2, ::2].t()",
    "channels last": "torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)",
    "permuted": "torch.rand(3, 4, 5).permute(1, 2, 0)",
    "float64": "torch.rand(5, 20, dtype=torch.float64)[:, 3:9]",
    "bfloat16": "torch.rand(5, 20).bfloat16()[:, 3:9]",
    "one number": "torch.rand(())",
    "none": "torch.rand(0, 3)[:, ::2]",
}
DRAWS = ("normal_()", "normal_(2.0, std=0.3)", "bernoulli_()", "bernoulli_(p=0.3)")
OTHER_DRAWS = (
    "bernoulli_(x.detach().clone().abs().clamp(0, 1))",
    "uniform_()",
    "exponential_()",
    "cauchy_()",
    "log_normal_()",
    "geometric_(0.4)",
    "random_()",
)


class InPlaceDraws(CaptureTest):
    def assert_captured(self, body: str, inputs: str) -> None:
        """Capture compares the graph's numbers with eager's, and the generators."""
        reply = capture.reply_of(self.write(simple(body, f"[{inputs}]")), self.out)
        self.assertTrue(reply["ok"], reply)

    def test_normal_and_bernoulli(self) -> None:
        for draw in DRAWS:
            for layout, inputs in LAYOUTS.items():
                with self.subTest(draw=draw, layout=layout):
                    self.assert_captured(f"x.{draw}\nreturn x + 1, torch.rand(3)", inputs)

    def test_the_others(self) -> None:
        for draw in OTHER_DRAWS:
            for layout in ("gaps", "transposed gaps", "channels last"):
                with self.subTest(draw=draw, layout=layout):
                    self.assert_captured(f"x.{draw}\nreturn x + 1", LAYOUTS[layout])

    def test_into_a_view_and_into_integers(self) -> None:
        for draw in (
            "y = x.clone()\ny[:, ::2].normal_()\nreturn y",
            "y = torch.zeros(8, 20)\ny[1:7, ::3].t().normal_()\nreturn x.sum() + y",
            "y = x.long().t().bernoulli_(0.5)\nreturn y",
            "y = x.bool()[:, ::2].bernoulli_(0.5)\nreturn y",
        ):
            with self.subTest(draw=draw):
                self.assert_captured(draw, "torch.randn(7, 22)")


if __name__ == "__main__":
    unittest.main()
