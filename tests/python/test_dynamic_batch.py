"""One search, every batch: whole runs of the real program, and both ways into it
from a person's own process."""

import inspect
import json
import sys
import types
import unittest
import warnings

import torch
import weft_case
from backend_case import RealSearches
from torch import nn
from weft_case import WeftCase, module_of, problem_with

import weft
from weft.backend.graphs import symbolic_graph
from weft.capture import symbolic_sizes as exporter

#: None of them is a size that anything was captured, printed or judged at.
BATCHES = (1, 2, 3, 7, 17, 97, 128, 1031)
#: The problem's: kernels win by far more than a busy machine's noise.
BATCH = 1536
QUICK = (
    "--variants",
    "1",
    "--no-compile-baseline",
    "--timing-ms",
    "100",
    "--final-timing-ms",
    "300",
    "--dynamic-batch",
)


class Chain(nn.Module):
    """What is faster as one kernel on any machine, a norm and a view that joins
    the batch with another dimension, around a product."""

    def __init__(self, width=256):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        y = torch.tanh(x * self.scale).abs().sqrt() * 2 - torch.sigmoid(x)
        y = (y.relu() + x).clamp(-1, 1) * y.exp()
        y = self.norm(self.linear(y))
        return (y.reshape(-1, 64) * 2).softmax(-1).reshape(x.shape) + x


class Block(nn.Module):
    """A sequence of any length: attention is the framework's, for every one."""

    def __init__(self, width=128):
        super().__init__()
        self.heads = 4
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        y = torch.tanh(x * self.scale).abs().sqrt() * 2 - torch.sigmoid(x)
        y = self.norm((y.relu() + x).clamp(-1, 1) * y.exp())
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(y).chunk(3, -1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2)) + x


PROBLEM = """import torch
from torch import nn


{model}

def get_inputs():
    return [torch.randn({batch}, 256)]


def get_init_inputs():
    return []
"""


def problem_text():
    text = inspect.getsource(Chain).replace("Chain", "Model")
    return PROBLEM.format(model=text, batch=BATCH)


class DynamicRun(WeftCase):
    def run_of(self, text, *words, target="cpu", name="run"):
        return self.weft(
            "run",
            self.write("problem.py", text),
            "--out",
            self.path(name),
            "--target",
            target,
            *QUICK,
            *words,
            timeout=600,
        )

    def run_that_wins(self):
        """The folder of one with kernels of ours: asked again where the machine
        was too busy to see that they are faster."""
        for attempt in range(3):
            name = f"run{attempt}"
            self.assert_ends(self.run_of(problem_text(), name=name), 0)
            with open(self.path(name + "/result.json"), encoding="utf-8") as file:
                result = json.load(file)
            if any(one["ours"] for one in result["subgraphs"]):
                return self.path(name)
            print("no kernel was faster:", result["summary"], file=sys.stderr)
        return self.fail(result)

    @weft_case.long
    def test_one_run_s_module_takes_every_batch(self):
        run = self.run_that_wins()
        self.assert_replays(run)
        new = module_of(run + "/composed/model_new.py")
        torch.manual_seed(3)
        model = Chain()
        ours = new.ModelNew()
        ours.load_state_dict(model.state_dict())
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("error")  # of a call that is passed on
            for batch in BATCHES:
                x = torch.randn(batch, 256)
                verdict = weft.verify(model, ours, [x])
                self.assertTrue(verdict, f"{batch}: {verdict}")
        with self.assertWarnsRegex(UserWarning, "no batch|no tensor"):
            ours(torch.randn(0, 256))

    @weft_case.long
    def test_every_size_that_is_judged_stands_in_the_journal(self):
        """Of the second input's second dimension, which the first has, too."""
        self.assert_ends(
            self.weft(
                "run",
                self.write(
                    "problem.py",
                    problem_with(
                        "return torch.tanh(x * 2) + y",
                        arguments="self, x, y",
                        inputs="[torch.rand(3, 64, 8), torch.rand(1, 64, 8)]",
                    ),
                ),
                "--out",
                self.path("run"),
                *QUICK[:-1],
                "--dynamic-dim",
                "1:1",
                timeout=600,
            ),
            0,
        )
        against = weft_case.held_against(self.path("run"), "target")
        self.assertEqual(len(against["cpu"]), 4)

    def test_a_branch_on_the_batch_is_refused(self):
        done = self.run_of(problem_with(forward="return x * 2 if x.shape[0] > 500 else x + 1"))
        self.assert_ends(done, 2, "cannot have kernels for any size", "--dynamic-batch")

    def test_what_cannot_be_is_said_at_once(self):
        text = problem_with()
        self.assert_ends(
            self.run_of(text, "--seeds", "inductor"), 2, "--dynamic-batch takes kernels of"
        )
        self.assert_ends(self.run_of(text, "--train"), 2, "--dynamic-batch")
        one = problem_with(inputs="[torch.rand(1, 16)]")
        self.assert_ends(self.run_of(one), 2, "no dimension 0 of 2 or more")
        for words, said in (
            (("--dynamic-dim", "2"), "--dynamic-dim 2: the first tensor"),
            (("--dynamic-dim", "3:1"), "--dynamic-dim 3:1: the input 3"),
            (("--dynamic-dim", "x"), "'x' is no dimension"),
        ):
            self.assert_ends(self.run_of(text, *words), 2, said)


class Exported(unittest.TestCase):
    def test_inputs_that_are_no_tensors_have_no_size(self):
        class Scaled(nn.Module):
            def forward(self, x, factor, bias):
                return x * factor if bias is None else x * factor + bias

        problem = types.SimpleNamespace(module=types.SimpleNamespace(WEFT_SIZES=(37,)))
        exporter.check(problem, Scaled(), [torch.rand(37, 8), 3, None])


class DynamicCalls(RealSearches):
    def check(self, module, call, made=lambda batch: torch.randn(batch, 256)):
        with torch.no_grad():
            for batch in (BATCH, BATCH, *BATCHES):
                verdict = weft.verify(module, call, [made(batch)])
                self.assertTrue(verdict, f"{batch}: {verdict}")
        told = str(weft.explain())
        self.assertEqual(len(self.searches), 1, told)
        self.assertIn("--dynamic-dim", self.searches[0])

    def test_compile_with_dynamic_shapes_searches_once(self):
        module = Chain().eval()
        compiled = self.compiled_for(module, torch.randn(BATCH, 256), (0,))
        self.check(module, compiled)
        graphs = self.compiled_graphs()
        self.assertEqual(self.states(), ["ready"] * len(graphs))
        self.assertLessEqual(len(graphs), 2)  # Dynamo's own one for 1
        calls = sum(kernels.calls for graph in graphs for kernels in graph.kernels.values())
        # But for the first call of each, which looks at both.
        self.assertGreaterEqual(calls, len(BATCHES))

    @weft_case.long
    def test_optimize_searches_once_for_a_sequence(self):
        def made(length):
            return torch.randn(2, length, 128)

        module = Block().eval()
        ours = self.optimized(module, made(BATCH), dynamic_dim=1)
        self.check(module, ours, made)
        dispatch = ours.__dict__["_weft"]
        self.assertEqual(dispatch.declined, 0)
        self.assertEqual(dispatch.calls, len(BATCHES) + 2)


class TheSameText(unittest.TestCase):
    def test_numbers_that_grow_are_expressions(self):
        texts = {
            (n,): f"view({n}, {n * 8}, {n + 3}, 1e-05, 64, v{7})"
            for (n,) in symbolic_graph.SAMPLES[1]
        }
        self.assertEqual(
            symbolic_graph.common_text(texts),
            "view(weft_batch, (8 * weft_batch), (weft_batch + 3), 1e-05, 64, v7)",
        )

    def test_what_does_not_grow_evenly_is_refused(self):
        for text in (
            "n // 2",
            "n * n * n",
            "'x' * n",
            "n * n // 8 * 8",
            "-(n * n) % 24",
            "n // 48 * 48",
        ):
            texts = {(n,): str(eval(text, {"n": n})) for (n,) in symbolic_graph.SAMPLES[1]}
            with self.subTest(text), self.assertRaises(symbolic_graph.Unsupported):
                symbolic_graph.common_text(texts)


if __name__ == "__main__":
    unittest.main()
