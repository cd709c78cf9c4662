"""weft run --train: both passes as graphs, ModelNew of them, and its judge."""

import contextlib
import io
import json
import os
import subprocess
import sys
import unittest
from unittest import mock

import torch
from weft_case import WeftCase, environment, problem_with

from weft.backend.graph_source import Unsupported
from weft.problem import problem as problems
from weft.training import driver, joint, judge, module_text

FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_weft.py")

NORMED = problem_with(
    init="self.linear = nn.Linear(16, 8)\n"
    "        self.norm = nn.BatchNorm1d(8)\n"
    "        self.frozen = nn.Parameter(torch.rand(8), requires_grad=False)",
    forward="y = torch.relu(self.norm(self.linear(x))) * self.frozen\n"
    "        return {'y': y.view(2, 32), 'most': [y.argmax(1), y.mean()]}",
    inputs="[torch.rand(8, 16)]")
DROPS = problem_with(
    init="self.scale = nn.Parameter(torch.rand(16))",
    forward="return nn.functional.dropout(x * self.scale, 0.5)")
LITERAL = problem_with(
    init="self.scale = nn.Parameter(torch.rand(16))",
    forward="return x * self.scale * torch.tensor([1.0, 2.0]).repeat(8)",
    inputs="[torch.rand(8, 16, requires_grad=True)]")


class Training(WeftCase):
    def captured(self, text, mode="as-is"):
        """(path of the problem, its Step, its Graphs)"""
        path = self.write("problem.py", text)
        problem = problems.load_problem(path, mode)
        torch.manual_seed(0)
        model = problems.build_model(problem, adopts=False)
        step = joint.capture(model, problems.make_inputs(problem))
        return path, step, driver.sources_of(step)

    def subject(self, text, change=lambda forward, backward: None,
                mode="as-is"):
        """Of a ModelNew whose graphs are by the framework's operators."""
        path, step, graphs = self.captured(text, mode)
        texts = [module_text.GraphText(graph.source, None) for graph in graphs]
        change(*texts)
        made = self.write("made.py", module_text.write(text, step, *texts))
        return judge.Subject(path, made, mode, "cpu", step.draws)

    def told(self, subject):
        told = {"error": 0.0, "tolerance": 0.0, "framework_error": 0.0}
        judge.check_gradients(subject, told)
        judge.check_steps(subject, told)
        return told

    def test_results_gradients_buffers_and_losses_are_the_model_s(self):
        for mode in ("train", "eval"):
            subject = self.subject(NORMED, mode=mode)
            told = self.told(subject)
            self.assertEqual(len(told["losses"]), judge.STEPS)
            self.assertNotEqual(told["losses"][0], told["losses"][-1])

    def test_numbers_in_forward_and_gradients_of_inputs(self):
        self.told(self.subject(LITERAL))

    def test_what_is_drawn_is_drawn_alike(self):
        self.told(self.subject(DROPS))

    def test_a_wrong_gradient_is_refused(self):
        def change(forward, backward):
            backward.source.text = backward.source.text.replace(
                "return (", "return tuple(1.01 * one for one in (", 1).replace(
                    ",)\n\n\ndef get_inputs", ",))\n\n\ndef get_inputs", 1)
            self.assertIn("1.01", backward.source.text)

        with self.assertRaisesRegex(judge.Wrong, "gradient of "):
            self.told(self.subject(NORMED, change))

    def test_another_kind_of_call_is_the_original_s(self):
        subject = self.subject(NORMED)
        ours, (x,) = subject.ours, subject.inputs(1)
        passes = subject.module._weft_forward

        def computes(call):
            before = passes.calls
            call()
            return passes.calls > before, ours.weft_reason

        self.assertEqual(computes(lambda: ours(x)), (True, ""))
        with torch.no_grad():
            self.assertTrue(computes(lambda: ours(x))[0])
        for call, why in (
                (lambda: ours(torch.rand(4, 16)), "shape"),
                (lambda: ours(x.clone().requires_grad_(True)), "gradient"),
                (lambda: ours.eval()(x), "mode"),
                (lambda: torch.func.functional_call(
                    ours.train(), {"norm.bias": torch.rand(3)}, (x,)), "shape")):
            with contextlib.suppress(RuntimeError):  # of the original's
                done, reason = computes(call)
                self.assertFalse(done)
                self.assertIn(why, reason)
        handle = ours.train().linear.register_forward_hook(lambda *_: None)
        self.assertIn("hooks", computes(lambda: ours(x))[1])
        handle.remove()
        ours.norm.eps = 0.5
        self.assertIn("eps", computes(lambda: ours(x))[1])

    def test_a_second_derivative_is_refused(self):
        subject = self.subject(NORMED)
        (x,) = subject.inputs(1)
        parameter = subject.ours.linear.weight
        with self.assertRaisesRegex(RuntimeError, "create_graph"):
            torch.autograd.grad(subject.ours(x)["most"][1], [parameter],
                                create_graph=True)

    def test_what_cannot_be_trained_says_why(self):
        scaled = "self.scale = nn.Parameter(torch.rand(16))"
        for text, why in (
                (problem_with(), "requires a gradient"),
                (problem_with(init=scaled, forward="return x > 1"),
                 "none of its results"),
                (problem_with(init=scaled, forward="x += 1\n"
                              "        return x * self.scale"),
                 "writes into its inputs"),
                (problem_with(init=scaled,
                              forward="return x * self.scale, x.t()"),
                 "a view of one")):
            with self.assertRaisesRegex(Unsupported, why):
                self.captured(text)

    def test_the_program_says_it_and_ends_with_2(self):
        done = self.weft("run", "--train", self.write("bare.py",
                                                      problem_with()))
        self.assert_ends(done, 2, "bare.py cannot be trained")
        self.assertEqual(os.listdir(self.folder), ["bare.py"])

    def test_each_pass_s_kernels_are_tried_alone_too(self):
        graphs = [driver.Graph("forward", None, composed="some"),
                  driver.Graph("backward", None, composed="some")]
        self.assertEqual(driver.ways(graphs), [
            ["forward", "backward"], ["forward"], ["backward"]])
        graphs[0].composed = None
        self.assertEqual(driver.ways(graphs), [["backward"]])
        graphs[1].composed = None
        self.assertEqual(driver.ways(graphs), [])

    def test_both_runs_become_one_module(self):
        """Each by a program that answers at once, with a module of its own."""
        out = self.path("run")
        settings = {
            "weft": FAKE, "problem": self.write("normed.py", NORMED),
            "out": out, "mode": "as-is", "target": "cpu", "device": 0,
            "budget_s": 0, "timing_s": 0.01, "with_compile": False,
            "run_flags": ["--variants", "2"], "json": True, "quiet": True}
        self.addCleanup(os.environ.pop, "FAKE_WEFT_RUNS", None)
        os.environ["FAKE_WEFT_RUNS"] = self.path("runs")
        told, both = io.StringIO(), [["forward", "backward"]]
        with contextlib.redirect_stdout(told), \
                mock.patch.object(driver, "ways", return_value=both):
            self.assertEqual(driver.main(json.dumps(settings)), 0)
        result = json.loads(told.getvalue())
        self.assertTrue(result["verified"])
        (one,) = result["tried"]
        self.assertTrue(one["correct"], one["reason"])
        self.assertEqual(one["cases"], len(judge.SCALES))
        with open(self.path("runs"), encoding="utf-8") as file:
            words = file.readlines()
        self.assertEqual(len(words), 2)
        self.assertIn("--variants 2", words[0])
        if not result["kernels"]:  # no faster, on a busy machine
            self.assertIn("the framework's", result["summary"])
        # It needs nothing of weft's.
        done = subprocess.run(
            [sys.executable, "-B", "-c",
             "import importlib, os, sys\n"
             "name = next(n[:-3] for n in sorted(os.listdir('.'))\n"
             "            if n in ('forward_backward.py', 'model_new.py'))\n"
             "module = importlib.import_module(name)\n"
             "model = module.ModelNew()\n"
             "model(*module.get_inputs())['most'][1].backward()\n"
             "assert 'weft' not in sys.modules\n"
             "assert model.linear.weight.grad is not None"],
            cwd=os.path.join(out, "composed"), capture_output=True, text=True,
            check=False, env={**environment(), "PYTHONPATH": ""})
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
