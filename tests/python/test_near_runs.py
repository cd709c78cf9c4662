"""Whole runs by both rules: a module that is right and not near to eager, and
the one that is composed in addition. Nothing is timed: Triton's interpreter proves
the kernels."""

import json
import os
import subprocess
import sys
import unittest

from weft_case import ROOT, WeftCase, environment, long, problem_with

# What is summed is large and cancels: another order of the same sum is as exact
# as eager's, and differs by more than 1e-4 of the little that is left. Between it
# and what is not summed stands an operator of the framework's.
CANCELS = problem_with(
    forward="y = torch.sort(torch.relu(x + 3), -1)[0]; return ((y - 3) * 1e6).sum(-1)",
    inputs="[torch.randn(512, 96)]",
)

# The framework's own product loses what TF32 loses, as a GPU's library does: an
# exact one is right, and far from it. Kernels are judged where this file is not
# loaded, against exact products.
LOSSY = problem_with(
    head="""
from torch import library

def lossy_mm(a, b):
    def lose(t):
        if t.dtype != torch.float32:
            return t
        bits = t.contiguous().view(torch.int32)
        return ((bits + 4096) & ~0x1FFF).view(torch.float32)
    return torch.bmm(lose(a)[None], lose(b)[None])[0]

if not hasattr(torch, "lossy_products"):  # for good, and once a process
    torch.lossy_products = library.Library("aten", "IMPL")
    torch.lossy_products.impl("mm", lossy_mm, "CPU")

""",
    init="self.weight = nn.Parameter(torch.randn(64, 64))",
    forward="y = torch.relu(x - 0.5) @ self.weight; return nn.functional.gelu(y) - y.mean(0)",
    inputs="[torch.randn(48, 64)]",
)

# In five trials, by KernelBench's seeds, in a process of its own.
JUDGE = """
import importlib.util, sys, torch
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
old, new = load("old", sys.argv[1]), load("new", sys.argv[2])
models = []
for kind in (old.Model, new.ModelNew):
    torch.manual_seed(42)
    models.append(kind(*old.get_init_inputs()))
torch.manual_seed(42)
near = []
for seed in [int(torch.randint(0, 2**32 - 1, (1,))) for _ in range(5)]:
    torch.manual_seed(seed)
    inputs = old.get_inputs()
    with torch.no_grad():
        one, two = (model(*inputs) for model in models)
    near.append(torch.allclose(one, two, atol=1e-4, rtol=1e-4))
print(all(near))
"""


class NearRuns(WeftCase):
    def run_of(self, accept, code=0, problem=CANCELS):
        """(run directory, its result.json)."""
        run = self.path("run-" + accept)
        done = self.weft(
            "run",
            self.write("cancels.py", problem),
            "--out",
            run,
            "--target",
            "triton",
            "--variants",
            "1",
            "--no-compile-baseline",
            "--accept",
            accept,
            timeout=400,
            CUDA_VISIBLE_DEVICES="",
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
            return run, json.load(file)

    def is_near(self, module):
        """By a loop outside of weft."""
        kernels = os.path.join(self.folder, "kernels")
        done = subprocess.run(
            [sys.executable, "-c", JUDGE, self.path("cancels.py"), module],
            capture_output=True,
            text=True,
            check=False,
            env=environment(
                TRITON_INTERPRET="1",
                WEFT_KERNEL_CACHE=kernels,
                PYTHONPATH=os.path.join(ROOT, "python"),
            ),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip() == "True"

    def test_by_both_rules_there_are_two_modules(self):
        run, told = self.run_of("both")
        self.assertTrue(told["verdict"]["correct"])
        self.assertEqual(told["verdict"]["kernelbench"]["outcome"], "outside")
        ours = [part["id"] for part in told["subgraphs"] if part["ours"]]
        self.assertEqual(len(ours), 2)
        beside = told["kernelbench_module"]
        self.assertEqual(beside["verdict"]["kernelbench"]["outcome"], "within")
        self.assertTrue(beside["verdict"]["correct"])
        self.assertEqual(len(beside["ours"]), 1)
        self.assertIn("another module is", told["summary"])
        with open(os.path.join(run, "report.md"), encoding="utf-8") as file:
            self.assertIn("## The module within KernelBench's tolerance", file.read())
        self.assertFalse(self.is_near(os.path.join(run, "composed", "model_new.py")))
        self.assertTrue(self.is_near(os.path.join(run, beside["file"])))
        self.assert_replays(run)

    @long
    def test_by_the_near_rule_there_is_one_module_and_it_is_near(self):
        run, told = self.run_of("kernelbench")
        self.assertEqual(told["verdict"]["kernelbench"]["outcome"], "within")
        self.assertIsNone(told["kernelbench_module"])
        self.assertTrue(self.is_near(os.path.join(run, "composed", "model_new.py")))

    def test_what_lost_its_product_is_ours_around_the_framework_s_own(self):
        run, told = self.run_of("both", problem=LOSSY)
        self.assertTrue(told["verdict"]["correct"])
        self.assertEqual(told["verdict"]["kernelbench"]["outcome"], "outside")
        ours = [part["id"] for part in told["subgraphs"] if part["ours"]]
        self.assertEqual(len(ours), 1)
        self.assertEqual(told["externs"], {})
        beside = told["kernelbench_module"]
        self.assertEqual(beside["verdict"]["kernelbench"]["outcome"], "within")
        self.assertTrue(beside["verdict"]["correct"])
        self.assertEqual(len(beside["ours"]), 2)
        self.assertEqual(beside["externs"], {"aten.matmul.default": 1})
        listed = {part["id"] for part in told["subgraphs"]}
        self.assertLessEqual(set(beside["ours"]), listed)
        self.assertFalse(self.is_near(os.path.join(run, "composed", "model_new.py")))
        self.assertTrue(self.is_near(os.path.join(run, beside["file"])))
        self.assert_replays(run)

    def test_what_draws_is_not_judged_and_so_not_verified_by_that_rule(self):
        draws = problem_with(forward="return torch.nn.functional.dropout(x, 0.5) * 2")
        _, told = self.run_of("kernelbench", 1, draws)
        self.assertIn("draws random numbers", told["verdict"]["reason"])


if __name__ == "__main__":
    unittest.main()
