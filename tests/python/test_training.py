"""weft run --train: both passes as graphs, ModelNew of them, and its verdict."""

import contextlib
import dataclasses
import importlib.util
import io
import json
import os
import subprocess
import sys
import unittest
from unittest import mock

import torch
from driver_settings import settings_with
from weft_case import WEFT, WeftCase, environment, problem_with

from weft import runs
from weft.backend.graphs.problem_source import Unsupported
from weft.problem import problem as problems
from weft.training import (
    gradients,
    joint,
    step_text,
    trained_model_text,
    training_run,
    training_verdict,
)

FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_weft.py")

NORMED = problem_with(
    init="self.linear = nn.Linear(16, 8)\n"
    "        self.norm = nn.BatchNorm1d(8)\n"
    "        self.frozen = nn.Parameter(torch.rand(8), requires_grad=False)",
    forward="y = torch.relu(self.norm(self.linear(x))) * self.frozen\n"
    "        return {'y': y.view(2, 32), 'most': [y.argmax(1), y.mean()]}",
    inputs="[torch.rand(8, 16)]",
)
DROPS = problem_with(
    init="self.scale = nn.Parameter(torch.rand(16))",
    forward="return nn.functional.dropout(x * self.scale, 0.5)",
)
LITERAL = problem_with(
    init="self.scale = nn.Parameter(torch.rand(16))",
    forward="return x * self.scale * torch.tensor([1.0, 2.0]).repeat(8)",
    inputs="[torch.rand(8, 16, requires_grad=True)]",
)
TIED = problem_with(
    init="self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)\n"
    "        self.second.weight = self.first.weight",
    forward="return self.second(torch.tanh(self.first(x)))",
)
SMALL = problem_with(
    init="self.linear = nn.Linear(4, 3)",
    forward="return torch.tanh(self.linear(x))",
    inputs="[torch.rand(2, 4)]",
)
ROUNDS = problem_with(
    init="self.scale = nn.Parameter(torch.rand(16))",
    forward="y = x * self.scale\n        return y + (y.round() - y).detach()",
)


HALVES = problem_with(
    init="self.layers = nn.ModuleList([nn.Linear(\n"
    "            16, 16, dtype=torch.bfloat16) for _ in range(12)])",
    forward="for one in self.layers:\n            x = torch.tanh(one(x))\n        return x",
    inputs="[torch.rand(8, 16, dtype=torch.bfloat16)]",
)


class TrainingCase(WeftCase):
    def setUp(self):
        super().setUp()
        limit = mock.patch.object(gradients, "SECONDS_MAX", 1e9)
        limit.start()  # of a machine that others use
        self.addCleanup(limit.stop)

    def captured(self, text, mode="as-is"):
        """(Model, its Step, its Graphs)"""
        problem = problems.load_problem(self.write("problem.py", text), mode)
        torch.manual_seed(0)
        model = problems.build_model(problem, adopts=False)
        step = joint.capture(model, problems.make_inputs(problem))
        return model, step, training_run.sources_of(step)

    def module(self, text, change=lambda forward, backward: None, mode="as-is"):
        """(ModelNew's module with the framework's operators for kernels, the
        Step)"""
        _, step, graphs = self.captured(text, mode)
        texts = [trained_model_text.GraphText(graph.source, None) for graph in graphs]
        change(*texts)
        return trained_model_text.write(text, step, *texts), step

    def loaded(self, name, text):
        spec = importlib.util.spec_from_file_location(name, self.write(f"{name}.py", text))
        module = importlib.util.module_from_spec(spec)
        with mock.patch.dict(sys.modules, {name: module}):
            spec.loader.exec_module(module)
        return module


class Modules(TrainingCase):
    def check(self, text, mode="as-is"):
        """ModelNew's step and gradient descent against Model's; the losses."""
        new, step = self.module(text, mode=mode)
        for write in (step_text.write, step_text.write_descent):
            theirs = self.loaded("theirs", write(text, "Model", step))
            ours = self.loaded("ours", write(new, "ModelNew", step))
            torch.manual_seed(1)
            model, inputs = theirs.Model(), theirs.get_inputs()
            made = ours.ModelNew()
            made.load_state_dict(model.state_dict())
            found = []
            for one in (model, made):
                problems.put_in_mode(one, mode)
                torch.manual_seed(2)
                with torch.no_grad():
                    result = one(*inputs)
                found.append((result, one.state_dict()))
            self.assertEqual(ours._weft_passed_on, "")
            torch.testing.assert_close(*found)
        return found[1][0]

    def test_results_gradients_buffers_and_losses_are_the_model_s(self):
        for mode in ("train", "eval"):
            losses = self.check(NORMED, mode)
            self.assertEqual(len(losses), step_text.DESCENT_STEPS)
            self.assertNotEqual(losses[0], losses[-1])

    def test_numbers_in_forward_and_gradients_of_inputs(self):
        self.check(LITERAL)

    def test_a_model_without_parameters_gives_gradients_of_its_inputs(self):
        self.check(problem_with(inputs="[torch.rand(8, requires_grad=True)]"))

    def test_what_is_drawn_is_drawn_alike(self):
        self.check(DROPS)

    def test_a_tied_weight_has_one_gradient(self):
        self.check(TIED)

    def test_the_compiler_gets_both_passes_and_not_the_step(self):
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd

        def passing(name):
            return lambda graph, inputs: passes.append(name) or make_boxed_func(graph.forward)

        passes, (_, step) = [], self.module(LITERAL)
        module = self.loaded("compiled", step_text.write(LITERAL, "Model", step, is_compiled=True))
        model, inputs = module.Model(), module.get_inputs()
        backend = aot_autograd(fw_compiler=passing("forward"), bw_compiler=passing("backward"))
        self.addCleanup(torch._dynamo.reset)
        with torch.no_grad():
            compiled = torch.compile(model, dynamic=False, backend=backend)
            torch.testing.assert_close(compiled(*inputs), model(*inputs))
            compiled(*inputs)
        self.assertEqual(passes, ["forward", "backward"])

    def test_another_kind_of_call_is_the_original_s(self):
        module = self.loaded("made", self.module(NORMED)[0])
        ours, (x,) = module.ModelNew(), module.get_inputs()
        passes = module._weft_forward

        def computes(call):
            before = passes.calls
            call()
            self.assertEqual(ours.weft_reason, module._weft_passed_on)
            module._weft_passed_on = ""
            return passes.calls > before, ours.weft_reason

        self.assertEqual(computes(lambda: ours(x)), (True, ""))
        with torch.no_grad():
            self.assertTrue(computes(lambda: ours(x))[0])
        for call, why in (
            (lambda: ours(torch.rand(4, 16)), "shape"),
            (lambda: ours(x.clone().requires_grad_(True)), "gradient"),
            (lambda: ours.eval()(x), "mode"),
            (
                lambda: torch.func.functional_call(
                    ours.train(), {"norm.bias": torch.rand(3)}, (x,)
                ),
                "shape",
            ),
        ):
            with contextlib.suppress(RuntimeError):  # of the original's
                done, reason = computes(call)
                self.assertFalse(done)
                self.assertIn(why, reason)
        module._weft_passed_on = ""
        handle = ours.train().linear.register_forward_hook(lambda *_: None)
        self.assertIn("hooks", computes(lambda: ours(x))[1])
        handle.remove()
        ours.norm.eps = 0.5
        self.assertIn("eps", computes(lambda: ours(x))[1])

    def test_it_tells_that_a_graph_s_own_kernels_did_not_run(self):
        module = self.loaded("made", self.module(LITERAL)[0])
        module._weft_backward._module._weft_passed_on = "a guard"
        module.ModelNew()(*module.get_inputs()).sum().backward()
        self.assertEqual(module._weft_passed_on, "a guard")

    def test_a_second_derivative_is_refused(self):
        module = self.loaded("made", self.module(NORMED)[0])
        ours, (x,) = module.ModelNew(), module.get_inputs()
        with self.assertRaisesRegex(RuntimeError, "create_graph"):
            torch.autograd.grad(ours(x)["most"][1], [ours.linear.weight], create_graph=True)

    def test_what_cannot_be_trained_says_why(self):
        scaled = "self.scale = nn.Parameter(torch.rand(16))"
        for text, why in (
            (problem_with(), "requires a gradient"),
            (problem_with(init=scaled, forward="return x > 1"), "none of its results"),
            (
                problem_with(init=scaled, forward="x += 1\n        return x * self.scale"),
                "writes into its inputs",
            ),
            (problem_with(init=scaled, forward="return x * self.scale, x.t()"), "a view of one"),
        ):
            with self.assertRaisesRegex(Unsupported, why):
                self.captured(text)

    def test_each_pass_s_kernels_are_tried_alone_too(self):
        graphs = [
            training_run.Graph("forward", None, composed="some"),
            training_run.Graph("backward", None, composed="some"),
        ]
        self.assertEqual(
            training_run.ways(graphs), [["forward", "backward"], ["forward"], ["backward"]]
        )
        graphs[0].composed = None
        self.assertEqual(training_run.ways(graphs), [["backward"]])
        graphs[1].composed = None
        self.assertEqual(training_run.ways(graphs), [])

    def test_nothing_is_called_slower_that_was_not_tried(self):
        graphs = [
            training_run.Graph("forward", None, "no kernel was tried"),
            training_run.Graph("backward", None, "its run ended with 1"),
        ]
        self.assertEqual(
            training_run._why_none(graphs, []),
            "the forward pass: no kernel was tried; the backward pass: its run ended with 1",
        )
        self.assertIn("was faster", training_run._why_none(graphs, ["a trial"]))


class Gradcheck(TrainingCase):
    def told(self, text, change=lambda gradient: gradient):
        """Of that model, all of whose gradients are changed so."""
        model, step, _ = self.captured(text)
        backward = step.backward
        step.backward = lambda *kept: [
            None if one is None else change(one) for one in backward(*kept)
        ]
        checked = gradients.check(model, step)
        return checked.outcome, checked.how, checked.reason

    def test_elements_are_varied_alone_or_in_directions(self):
        for elements, how in ((1000, "every element"), (0, "random directions")):
            with mock.patch.object(gradients, "ELEMENTS_MAX", elements):
                self.assertEqual(self.told(SMALL), ("agrees", how, ""))
                with self.assertRaisesRegex(Unsupported, "derivatives"):
                    self.told(SMALL, lambda one: one * 1.01)

    def test_a_model_may_leave_a_term_of_its_derivatives_out(self):
        outcome, _, reason = self.told(ROUNDS)
        self.assertEqual(outcome, "differs")
        self.assertIn("so do Model's own", reason)

    def test_what_rounding_left_of_a_gradient_is_found(self):
        """A bias before a batch norm: its gradient is 0, but for rounding."""
        _, step, _ = self.captured(NORMED)
        step.lost, step.anchor = gradients.lost(step)
        self.assertEqual(step.lost, ["linear.bias"])
        made = self.loaded("step", step_text.write(NORMED, "Model", step))
        result = made.Model()(*made.get_inputs())
        beside = result["gradient of linear.bias"].abs()
        self.assertLess(beside[:8].max(), beside[8:].max() / 1000)

    def test_a_tied_weight_has_the_name_that_a_step_knows(self):
        model, step, _ = self.captured(TIED)
        found = [torch.ones(2)] * len(step.wanted)
        self.assertEqual(
            list(gradients._by_name(step, found, found)), list(dict(model.named_parameters()))
        )

    def test_what_a_half_format_rounds_in_each_operator_is_not_lost(self):
        _, step, _ = self.captured(HALVES)
        self.assertEqual(gradients.lost(step)[0], [])

    def test_what_is_not_checked_says_why(self):
        self.assertEqual(self.told(DROPS)[2], "it draws random numbers")
        with mock.patch.object(gradients, "SECONDS_MAX", 0):
            self.assertIn("it would take", self.told(LITERAL)[2])


class Reasons(TrainingCase):
    def test_outputs_have_their_names_and_other_numbers_stay(self):
        _, step, _ = self.captured(SMALL)
        reference = self.write("step.py", step_text.write(SMALL, "Model", step))
        settings = settings_with()
        for told, shown in (
            ("output 0 is off", "result 0 is off"),
            ("output 1 is off", "gradient of linear.weight is off"),
            (
                "it says: output 99, output 98765432109 and 3",
                "it says: output 99, output 98765432109 and 3",
            ),
        ):
            self.assertEqual(training_verdict._named(told, settings, reference), shown)
        # A reference that cannot run here leaves the numbers.
        broken = self.write("broken.py", "x = 1\n")
        self.assertEqual(training_verdict._named("output 0", settings, broken), "output 0")

    def test_nothing_that_a_candidate_says_steers_a_terminal(self):
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown):
            runs.say(settings_with(quiet=False), "refused: \x1b[2J\u009b2J, 1.2× off")
        self.assertEqual(shown.getvalue(), "weft: refused: \\x1b[2J\\u009b2J, 1.2× off\n")


class Verdicts(TrainingCase):
    """By weft eval, in the sandbox."""

    def settings(self, **more):
        return settings_with(
            **{
                "weft": WEFT,
                "problem": self.write("normed.py", NORMED),
                "out": self.path("run"),
                "judge_flags": ["--no-compile-baseline", "--timing-ms", "10"],
                **more,
            }
        )

    def refusal(self, change):
        """Of ModelNew, where change(text) is the module of its backward pass."""

        def changed(forward, backward):
            text = change(backward.source.text)
            self.assertNotEqual(text, backward.source.text)
            backward.source.text = text

        self.new, step = self.module(NORMED, changed)
        settings = self.settings()
        os.makedirs(self.path("run/composed"))
        reference = self.write("step.py", step_text.write(NORMED, "Model", step))
        made = training_verdict.Trial(["backward"], self.new)
        with mock.patch.dict(os.environ, environment()):
            made.check_step(settings, reference, step)
        self.assertFalse(made.is_faster)
        return made.reason

    def test_a_gradient_that_is_off_by_a_percent_is_refused(self):
        self.assertRegex(
            self.refusal(
                lambda text: text.replace(
                    "return (", "return tuple(1.01 * one for one in (", 1
                ).replace(",)\n\n\ndef get_inputs", ",))\n\n\ndef get_inputs", 1)
            ),
            "^case 0 .*gradient of ",
        )

    def test_what_it_writes_it_writes_in_its_box(self):
        """The kernels' text runs in the sandbox alone: not where weft does."""
        outside = self.path("escaped.txt")
        self.assertIn(
            "escaped.txt", self.refusal(lambda text: f"open({outside!r}, 'w').close()\n{text}")
        )
        self.assertFalse(os.path.exists(outside))
        self.loaded("escaping", self.new)  # as anybody's module would
        self.assertTrue(os.path.exists(outside))

    def test_both_runs_become_one_module(self):
        """Each by a program that answers at once, with a module of its own."""
        out = self.path("run")
        settings = self.settings(weft=FAKE, device=0, json=True, run_flags=["--variants", "2"])
        told, both = io.StringIO(), [["forward", "backward"]]
        with (
            contextlib.redirect_stdout(told),
            mock.patch.object(training_run, "ways", return_value=both),
            mock.patch.object(training_verdict.Trial, "is_faster", True),
            mock.patch.dict(
                os.environ, environment(WEFT_BIN=WEFT, FAKE_WEFT_RUNS=self.path("runs"))
            ),
        ):
            code = training_run.main(json.dumps(dataclasses.asdict(settings)))
        self.assertEqual(code, 0, told.getvalue())
        result = json.loads(told.getvalue())
        self.assertTrue(result["verified"])
        self.assertEqual(result["kernels"], both[0])
        self.assertEqual(result["gradcheck"]["outcome"], "agrees")
        self.assertEqual(result["gradcheck"]["lost_in_rounding"], ["linear.bias"])
        (one,) = result["tried"]
        for verdict in (one["verdict"], one["descent"]):
            self.assertTrue(verdict["correct"], verdict)
            self.assertGreater(verdict["cases"], 5)
        over = result["timing"]["over_eager"]
        self.assertLessEqual(over["low"], over["ratio"])
        with open(self.path("run/report.md"), encoding="utf-8") as file:
            self.assertIn("| right; losses follow eager's |", file.read())
        with open(self.path("runs"), encoding="utf-8") as file:
            words = file.readlines()
        self.assertEqual(len(words), 2)
        self.assertIn("--variants 2", words[0])
        # It needs nothing of weft's.
        done = subprocess.run(
            [
                sys.executable,
                "-B",
                "-c",
                "import sys\n"
                "from model_new import ModelNew, get_inputs\n"
                "model = ModelNew()\n"
                "model(*get_inputs())['most'][1].backward()\n"
                "assert 'weft' not in sys.modules\n"
                "assert not model.weft_reason\n"
                "assert model.linear.weight.grad is not None",
            ],
            cwd=os.path.join(out, "composed"),
            capture_output=True,
            text=True,
            check=False,
            env={**environment(), "PYTHONPATH": ""},
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_program_says_it_and_ends_with_2(self):
        done = self.weft("run", "--train", self.write("bare.py", problem_with()))
        self.assert_ends(done, 2, "bare.py cannot be trained")
        self.assertEqual(os.listdir(self.folder), ["bare.py"])


class WholeRuns(WeftCase):
    def test_a_step_is_searched_for_verified_and_follows_eager_s_losses(self):
        """Where kernels are interpreted nothing is timed, and what is right is
        taken: so it ends alike on a busy machine, and on one with a GPU."""
        text = problem_with(
            init="self.scale = nn.Parameter(torch.rand(16))",
            forward="return torch.tanh(x * self.scale) * torch.sigmoid(x)",
            inputs="[torch.randn(32, 16)]",
        )
        out = self.path("run")
        done = self.weft(
            "run",
            "--train",
            self.write("problem.py", text),
            "--out",
            out,
            "--target",
            "triton",
            "--variants",
            "1",
            "--seeds",
            "compiler",
            "--no-compile-baseline",
            "--json",
            timeout=900,
            CUDA_VISIBLE_DEVICES="",
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        result = self.read_json("run/result.json")
        self.assertTrue(result["verified"], result)
        self.assertEqual(result["kernels"], ["forward", "backward"])
        self.assertEqual(result["gradcheck"]["outcome"], "agrees")
        both = result["tried"][0]
        self.assertTrue(both["verdict"]["correct"], both)
        self.assertTrue(both["descent"]["correct"], both)
        for name in ("forward", "backward"):
            subgraphs = self.read_json(f"run/{name}/result.json")["subgraphs"]
            self.assertTrue(all(one["ours"] for one in subgraphs))
            self.assert_replays(os.path.join(out, name))
        with open(self.path("run/composed/model_new.py"), encoding="utf-8") as file:
            self.assertIn("@triton.jit", file.read())

    def read_json(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)


if __name__ == "__main__":
    unittest.main()
