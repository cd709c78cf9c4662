"""Random numbers that are drawn into a tensor are eager's, in every layout."""

from __future__ import annotations

import unittest
import warnings

import torch

from capture_case import CaptureTest, simple

from weft.capture import capture, in_place_draws

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


DROPOUTS = ("dropout_(x, 0.3, True)", "dropout(x, 0.3, True)", "feature_dropout(x, 0.5, True)")


def bernoulli_by_index(
    tensor: torch.Tensor, p: float = 0.5, *, generator: torch.Generator | None = None
) -> torch.Tensor:
    """Draws as PyTorch does with MKL on Intel's processors: one number of the generator
    is the seed of all others, which are drawn in the order of the indices."""
    seed = torch.randint(2**31, (), generator=generator).item()
    numbers = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(seed))
    return tensor.copy_(numbers < p)


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

    def test_dropout(self) -> None:
        for draw in DROPOUTS:
            for layout in ("dense", "gaps", "transposed gaps", "channels last", "bfloat16"):
                with self.subTest(draw=draw, layout=layout):
                    self.assert_captured(f"return torch.{draw} + 1", LAYOUTS[layout])

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


class IntelsDraws(InPlaceDraws):
    """The same on a CPU where bernoulli_ draws in the order of indices."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.replacement = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it takes PyTorch's place
            cls.replacement.impl("bernoulli_.float", bernoulli_by_index, "CPU")
        in_place_draws.bernoulli_draws_by_index.cache_clear()
        cls.addClassCleanup(in_place_draws.bernoulli_draws_by_index.cache_clear)
        cls.addClassCleanup(cls.replacement._destroy)

    def test_the_order_is_noticed(self) -> None:
        self.assertTrue(in_place_draws.bernoulli_draws_by_index())


if __name__ == "__main__":
    unittest.main()
