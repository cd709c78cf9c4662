"""Expectations of one run of a Model, with and without float64's results."""

import dataclasses
import unittest

import torch

from weft.judge import run_expectations
from weft.judge.model_case import RunData, RunResults
from weft.problem.result_form import ResultForm

FORM = ResultForm("", [], [], [], [])


def results(outputs, inputs, dtype=torch.float32):
    tensors = [
        [torch.full((3,), value, dtype=dtype) for value in some] for some in (outputs, inputs)
    ]
    return RunResults(tensors[0], tensors[1], [], FORM, False)


class Against(unittest.TestCase):
    def truths(self, narrow, wide):
        """The first element of float64's answer to each tensor, or None."""
        data = RunData(0, [torch.zeros(3) for _ in narrow.inputs_after], [])
        made = run_expectations.against(data, (), narrow, wide, 1)
        return [None if one.wide is None else one.wide[0].item() for one in made]

    def test_each_result_is_judged_by_its_own_in_float64(self):
        narrow = results([1, 2], [3])
        self.assertEqual(self.truths(narrow, results([1, 2], [3], torch.float64)), [1, 2, 3])
        self.assertEqual(self.truths(narrow, None), [None, None, None])

    def test_another_number_of_outputs_leaves_inputs_their_truths(self):
        narrow = results([1, 2], [3])
        for outputs in ([1], [1, 2, 9], []):
            with self.subTest(outputs):
                wide = results(outputs, [3], torch.float64)
                self.assertEqual(self.truths(narrow, wide), [None, None, 3])

    def test_float64_s_results_are_not_kept(self):
        wide = results([1], [3], torch.float64)
        run_expectations.against(RunData(0, [torch.zeros(3)], []), (), results([1], [3]), wide, 1)
        self.assertEqual(wide, dataclasses.replace(wide, outputs=[], inputs_after=[]))


if __name__ == "__main__":
    unittest.main()
