"""Boolean outputs of halves: eager's own answer decides, and float64's does not."""

from __future__ import annotations

import unittest
from collections.abc import Callable

import torch

import captured_cases
from weft.expect import compare, exact_answers, inputs
from weft.expect.expected import CaseMaker
from weft.expect.reference import Reference

TENTHS = (torch.arange(-9, 10) * 0.1).bfloat16()
NEARLY_TENTH = torch.tensor(0.1, dtype=torch.float64)


def graph_of(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> dict:
    (graph,) = captured_cases.graphs_of([("case", function, tensors)])
    return graph


def exact(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> bool:
    graph = graph_of(function, *tensors)
    return exact_answers.exact_outputs(graph) == set(graph["outputs"])


class ExactAnswers(unittest.TestCase):
    def test_float64s_answer_to_a_comparison_of_halves_is_wrong(self) -> None:
        graph = graph_of(lambda x, w: (x + w) == 0, TENTHS, NEARLY_TENTH)
        maker = CaseMaker(Reference(graph))
        storages = [TENTHS.clone(), NEARLY_TENTH.reshape(1).clone()]
        (made,) = maker.expect("normal", storages).outputs
        eager = (TENTHS + NEARLY_TENTH) == 0
        wide = (TENTHS.double() + NEARLY_TENTH) == 0
        self.assertFalse(torch.equal(eager, wide))
        self.assertEqual(compare.compare(eager, made).reason, "")
        self.assertIn("expected True", compare.compare(wide, made).reason)

    def test_comparisons_of_what_is_rounded_in_one_way_are_exact(self) -> None:
        self.assertTrue(exact(lambda x: x > 0.1, TENTHS))
        self.assertTrue(exact(lambda x: (x * 3 - x).abs().t() <= 1, TENTHS))
        self.assertTrue(exact(lambda x: (x.float() == 0.1) | (x > 0), TENTHS))

    def test_other_outputs_may_be_float64s(self) -> None:
        self.assertFalse(exact(lambda x: x + 1, TENTHS))
        self.assertFalse(exact(lambda x: x.exp() > 1, TENTHS))
        self.assertFalse(exact(lambda x: x.sum() > 1, TENTHS))
        self.assertFalse(exact(lambda x: x > 1, TENTHS.float()))
        self.assertFalse(exact(lambda x: x / 3 > 1, TENTHS))

    def test_all_distributions_have_cases(self) -> None:
        graph = graph_of(lambda x, w: (x + w) == 0, TENTHS, NEARLY_TENTH)
        maker = CaseMaker(Reference(graph))
        for distribution in inputs.DISTRIBUTIONS:
            case = maker.case(distribution, torch.Generator().manual_seed(1))
            views = maker.views(case.data)
            want = (views[0] + views[1]) == 0
            with self.subTest(distribution=distribution):
                self.assertEqual(compare.compare(want, case.outputs[0]).reason, "")


if __name__ == "__main__":
    unittest.main()
