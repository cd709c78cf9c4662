"""How capture compares its graph's run with eager's."""

import contextlib
import os
import sys
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from capture_case import CaptureTest, simple

import torch

from weft.capture import capture, check as capture_check
from weft.problem import problem as problems


class SelfCheckTest(CaptureTest):
    def test_randomness_from_elsewhere_is_noticed(self):
        self.refuse(
            "import random\n" + simple("return x * random.random()"),
            "capture_differs",
            code="failed",
        )

    def test_a_wrong_number_is_found(self):
        expected = torch.randn(100)
        wrong = expected.clone()
        wrong[7] += 0.01
        capture_check.compare(expected, expected + 1e-7, "output")
        with self.assertRaises(problems.ProblemError) as caught:
            capture_check.compare(expected, wrong, "output 0")
        self.assertIn("output 0 differs", caught.exception.message)

    def test_tf32_excuses_what_float32_does_not_and_half_types_nothing(self):
        expected = torch.randn(100)
        near = expected + 5e-4 * expected.abs().max()
        with self.assertRaises(problems.ProblemError):
            capture_check.compare(expected, near, "output")
        capture_check.compare(expected, near, "output", has_tf32=True)
        for wrong in (torch.zeros(100), near + 0.1):
            with self.assertRaises(problems.ProblemError):
                capture_check.compare(expected, wrong, "output", has_tf32=True)
        half = expected.bfloat16()
        with self.assertRaises(problems.ProblemError):
            capture_check.compare(half, torch.zeros_like(half), "output", has_tf32=True)

    def test_what_cancels_is_held_against_what_it_is_made_of(self):
        expected, other = torch.tensor([4e-9, -3e-9]), torch.tensor([-4e-9, 0])
        with self.assertRaises(problems.ProblemError):
            capture_check.compare(expected, other, "mean")
        # Other results say nothing of that: a mask's numbers are huge.
        result, state = torch.tensor([1.0, -1e9]), torch.zeros(1)

        def runs(mean):
            return [result], {"mean": mean}, [state]

        capture_check.compare_runs(runs(expected), runs(other), "", False)
        with self.assertRaises(problems.ProblemError):
            capture_check.compare_runs(runs(expected), runs(other + 1e-6), "", False)

    def test_what_blows_up_an_ulp_is_held_against_that(self):
        def run(x, more=0.0):
            return [torch.sin(1e5 * x) + more], {"n": torch.sin(1e5 * x)}, []

        x = torch.rand(200, generator=torch.Generator().manual_seed(1))
        ulp = 1 + 1e-7
        for more, is_right in ((0.0, True), (0.5, False)):
            for sway in (None, lambda off: run(x / ulp if off else x)[:2]):
                with self.subTest(more=more, sway=bool(sway)):
                    told = contextlib.nullcontext()
                    if not (is_right and sway):
                        told = self.assertRaisesRegex(problems.ProblemError, "differs")
                    with told:
                        capture_check.compare_runs(run(x), run(x * ulp, more), "", False, sway)

    def test_a_model_that_differs_from_itself_is_said_to(self):
        def run(more):
            return [torch.ones(3) + more], {}, []

        with self.assertRaisesRegex(problems.ProblemError, "two calls of the model differ"):
            capture_check.compare_runs(run(0.0), run(0.5), "", False, lambda off: run(0.25)[:2])

    def test_a_deep_net_s_sway_is_that_of_its_inputs(self):
        path = self.write(
            simple(
                "for one in self.layers:\n    x = one(x)\nreturn x",
                init="self.layers = nn.ModuleList(nn.BatchNorm1d(6) for _ in range(3))",
            )
        )
        problem = problems.load_problem(path)
        model = problems.build_model(problem)
        inputs = problems.make_inputs(problem)
        state = capture.State(problem, model, inputs, torch.device("cpu"))
        expected = state.eager_run()
        outputs, after = state.swayed_run(True, False)
        self.assertLess(0, (outputs[0] - expected[0][0]).abs().max())
        self.assertLess((outputs[0] - expected[0][0]).abs().max(), 1e-4)
        self.assertEqual(set(after), set(expected[1]))
        again = state.eager_run()  # all is as it was
        self.assertTrue(torch.equal(again[0][0], expected[0][0]))

    def test_statistics_among_the_arguments_are_written(self):
        graph = self.capture(
            simple(
                "return F.batch_norm(x, mean, var, training=True, momentum=0.5)",
                inputs="[torch.randn(8, 6), torch.zeros(6), torch.ones(6)]",
                names="x, mean, var",
            )
        )
        self.assertEqual([m["target"] for m in graph["mutations"]], ["mean", "var"])

    def test_an_lstm_s_states_have_the_shapes_that_a_run_has(self):
        from torch._decomp import decompositions

        known = decompositions.one_layer_lstm

        def of_older_frameworks(given, hidden, *rest, **named):
            out, states = known(given, hidden, *rest, **named)
            return out, [s.unsqueeze(0).squeeze(1) for s in states]

        with (
            unittest.mock.patch.object(
                decompositions,
                "select_one_layer_lstm_function",
                lambda *_: decompositions.one_layer_lstm,
            ),
            unittest.mock.patch.object(decompositions, "one_layer_lstm", of_older_frameworks),
        ):
            graph = self.capture(
                simple(
                    "out, (h, c) = self.rnn(x)\nreturn out, h, c[-1]",
                    init="self.rnn = nn.LSTM(6, 5, 2, bidirectional=True)",
                    inputs="[torch.randn(7, 3, 6)]",
                )
            )
            self.assertIs(decompositions.one_layer_lstm, of_older_frameworks)
        self.assertIn("aten.lstm.input", self.targets(graph))

    def test_nan_and_infinity_equal_themselves(self):
        special = torch.tensor([float("nan"), float("inf"), 1.0])
        capture_check.compare(special, special.clone(), "output")
        with self.assertRaises(problems.ProblemError):
            capture_check.compare(special, special.nan_to_num(), "output")

    def test_the_model_and_its_inputs_are_left_as_they_were(self):
        text = simple("x.mul_(2)\nreturn self.bn(x)", init="self.bn = nn.BatchNorm1d(6)")
        graph = self.capture(text)
        self.assertEqual(len(graph["mutations"]), 4)


if __name__ == "__main__":
    unittest.main()
