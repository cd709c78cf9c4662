"""The calls with which capture compares a model with itself have its inputs' strides."""

from __future__ import annotations

import unittest

import torch
from capture_case import CaptureTest, simple

from weft.capture import capture
from weft.problem import problem as problems

#: Gaps, elements that are there several times, channels last, no dimensions.
INPUTS = (
    "torch.randn(4, 12)[:, ::2]",
    "torch.randn(4, 1).expand(4, 6)",
    "torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)",
    "torch.randn(3)[1]",
)


class RepeatedCalls(CaptureTest):
    def test_the_model_is_called_with_the_same_strides(self) -> None:
        for inputs in INPUTS:
            for is_off in (False, True):
                with self.subTest(inputs=inputs, is_off=is_off):
                    self.judge(inputs, is_off)

    def judge(self, inputs: str, is_off: bool) -> None:
        """By a model whose result depends on the strides alone."""
        path = self.write(simple("return x.new_tensor([*x.stride()])", inputs=f"[{inputs}]"))
        problem = problems.load_problem(path)
        model = problems.build_model(problem)
        state = capture.State(problem, model, problems.make_inputs(problem), torch.device("cpu"))
        wanted = state.eager_run()[0]
        got = state.swayed_run(is_off, False)[0]
        self.assertEqual([one.tolist() for one in got], [one.tolist() for one in wanted])


if __name__ == "__main__":
    unittest.main()
