"""A Python file's kernel_function as a subgraph's candidate, as language models
write them."""

import json
import os
import platform
import shutil
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path[:0] = [HERE, PACKAGES]

import oracle_samples as samples  # noqa: E402
from llm_case import KERNEL  # noqa: E402
from weft.candidate import allocations, python_kernel  # noqa: E402
from weft.expect.reference import TensorSpec  # noqa: E402
from weft.oracle import oracle  # noqa: E402

import torch  # noqa: E402

LIMITS = {"wall_ms": 20_000, "memory_bytes": 2 << 30}
NEW = "import torch\n\n\ndef kernel_function(*inputs):\n    "


def setUpModule():
    global folder, judge, graph
    folder = tempfile.mkdtemp(prefix="weft-python-")
    graph = os.path.join(folder, "graph.json")
    torch.set_grad_enabled(False)
    with open(graph, "w", encoding="utf-8") as file:
        json.dump(RELU, file)
    judge = oracle.Oracle(os.path.join(folder, "scratch"), [], 2)


def tearDownModule():
    judge.close()
    shutil.rmtree(folder)


RELU = samples.graph(
    [
        samples.node("x", "input", "x", values=[samples.tensor([8, 16])]),
        samples.node(
            "y", "call", "aten.relu.default", [samples.ref("x")], [samples.tensor([8, 16])]
        ),
    ],
    ["y"],
)


def ask(verb, text, **more):
    path = os.path.join(folder, "kernel.checked")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    reply = judge.answer(
        {
            "id": 1,
            "verb": verb,
            "subgraph": graph,
            "random_seed": 3,
            "candidate": {"kind": "python", "library": path},
            "limits": LIMITS,
            **more,
        }
    )
    judge.rest()
    assert reply["ok"], reply
    return reply


def kernel(body):
    return KERNEL.replace("BODY", body)


class PythonCandidate(unittest.TestCase):
    def test_what_is_right_is_accepted_and_timed(self):
        right = kernel("v != v ? v : (v > 0 ? v : 0.0f)")
        verdict = ask("check", right)["verdict"]
        self.assertTrue(verdict["correct"], verdict)
        timing = ask("time", right, budget_ms=50, baselines=["eager"])["timing"]
        self.assertEqual(timing["rejected"], "")
        self.assertGreater(timing["candidate"]["runs"], 0)
        if shutil.which("objdump") and platform.machine() == "x86_64":
            self.assertIn("run", timing["built"])

    def test_what_is_wrong_is_said(self):
        for text, kind, words in (
            (kernel("v"), "wrong", "output y"),
            (kernel("undeclared"), "crashed", "undeclared"),
            (NEW + "return [1.5]\n", "crashed", "no tensor"),
            (NEW + "return inputs[0][0]\n", "crashed", "not torch"),
            (
                NEW + "return inputs[0].clamp_(0)\n",
                "crashed",
                "computes by PyTorch's own operators (aten.clamp_",
            ),
            (kernel("v").replace("return y", "return x * (x > 0)"), "crashed", "aten."),
            (NEW + "inputs[0].zero_()\n    return inputs[0]\n", "cheated", ""),
            (NEW + "import os; os._exit(0)\n", "crashed", ""),
        ):
            verdict = ask("check", text)["verdict"]
            self.assertFalse(verdict["correct"], text)
            self.assertEqual(verdict["kind"], kind, verdict)
            self.assertIn(words, verdict["reason"])


FILE = """
import torch
from torch import empty_like

def scratch_and_result(x):
    scratch = torch.empty(4, 4)
    y = torch.empty(16)
    scratch.copy_(x); y.copy_(scratch.view(16))
    return y.view(4, 4)

def like(x):
    return empty_like(x).copy_(x)

def zeros(x):
    return torch.zeros(4, 4).add_(x)

def another_shape_each_call(x, calls=[]):
    calls.append(1)
    y = torch.empty(4, 4) if len(calls) == 1 else torch.empty(2, 8)
    return y.copy_(x.view(y.shape)).view(4, 4)

def an_input(x):
    return x
"""


class ResultMemory(unittest.TestCase):
    """Where the results of a file lie, from the second call on."""

    def setUp(self):
        for name in (*allocations.EMPTY, *allocations.ZEROS):
            self.addCleanup(setattr, torch, name, getattr(torch, name))
        self.counted = allocations.Allocations()
        self.counted.of_file("the_file")
        self.file = {"__name__": "the_file"}
        exec(FILE, self.file)

    def is_in_place(self, name):
        """Whether the second call's result is. Both results must be right."""
        for seed in (1, 2):
            x, output = torch.full((4, 4), float(seed)), torch.full((4, 4), -1.0)
            self.counted.begin([output])
            results = [self.file[name](x)]
            self.counted.learn(results)
            is_there = results[0].data_ptr() == output.data_ptr()
            python_kernel.copy_out(results, [output])
            self.assertEqual(output.tolist(), x.tolist())
        return is_there

    def test_a_result_is_allocated_where_it_is_compared(self):
        for name in ("scratch_and_result", "like", "zeros"):
            with self.subTest(name):
                self.setUp()
                self.assertTrue(self.is_in_place(name))

    def test_any_other_result_is_copied(self):
        for name in ("another_shape_each_call", "an_input"):
            with self.subTest(name):
                self.setUp()
                self.assertFalse(self.is_in_place(name))

    def test_allocations_of_other_modules_are_not_counted(self):
        self.counted.begin([torch.empty(4, 4)])
        torch.empty(4, 4)
        self.assertEqual(self.counted._made, [])


class TouchedBytes(unittest.TestCase):
    def test_only_elements_count(self):
        for shape, stride, elements in (
            ((4, 8), (8, 1), 32),
            ((4, 8), (64, 1), 32),
            ((4, 8), (0, 1), 8),
            ((4, 8), (1, 1), 11),
            ((0, 8), (8, 1), 0),
            ((), (), 1),
        ):
            spec = TensorSpec("x", torch.float32, shape, stride)
            self.assertEqual(spec.touched_bytes, 4 * elements, (shape, stride))


if __name__ == "__main__":
    unittest.main()
