"""Models that keep tensors for their next call in plain attributes."""

import json
import subprocess
import sys
import unittest

import torch

from weft_case import QUICK, WeftCase
from weft_worker.kept_state import changed_attributes
from weft_worker.module_state import random_state, state_of

RECURRENT = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(16 + 24, 24)
        self.read = nn.Linear(24, 8)
        self.hidden = torch.randn(4, 24)

    def forward(self, x):
        self.hidden = self.hidden.to(x.device)
        self.hidden = torch.tanh(self.mix(torch.cat((x, self.hidden), dim=1)))
        return torch.relu(self.read(self.hidden)) * 2


def get_inputs():
    return [torch.randn(4, 16)]


def get_init_inputs():
    return []
"""

# The model in a file called old.py, ModelNew in a file called new.py, called
# three times each.
STEPS = """
import importlib.util, sys, torch
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
old, new = load("old", sys.argv[1]), load("new", sys.argv[2])
torch.manual_seed(3)
model = old.Model()
torch.manual_seed(3)
ours = new.ModelNew()
with torch.no_grad():
    for step in range(3):
        x = torch.randn(4, 16)
        torch.testing.assert_close(ours(x), model(x))
        torch.testing.assert_close(ours.hidden, model.hidden)
print("equal")
"""


class ChangedAttributesTest(unittest.TestCase):
    def changed(self, *lines, arguments="self, x"):
        body = "\n".join(f"        {line}" for line in lines)
        return changed_attributes(
            f"class Model:\n    def __init__(self):\n        self.made = 0\n"
            f"    def forward({arguments}):\n{body}\n").get("Model")

    def test_what_is_bound_or_written_counts(self):
        self.assertEqual(self.changed(
            "self.a = x", "self.b += 1", "self.c[:, 0] = x", "self.d.copy_(x)",
            "(self.e, [self.f]) = x", "torch.add(x, x, out=self.g)",
            "self.h[0].add_(1)"), set("abcdegh"))

    def test_what_is_only_read_does_not_count(self):
        self.assertEqual(self.changed(
            "y = self.a + self.b.sum()", "y.c = x", "self.d.e = x",
            "self.__len__()", "return self.made"), set())

    def test_the_first_argument_may_have_any_name(self):
        self.assertEqual(self.changed("me.a = x", "self.b = x",
                                      arguments="me, x"), {"a"})


class RandomStateTest(unittest.TestCase):
    def test_statistics_of_a_half_type_stay_of_that_type(self):
        state = state_of(torch.nn.BatchNorm1d(3).bfloat16())
        made = random_state(state, torch.Generator().manual_seed(1))
        self.assertEqual([t.dtype for t in made], [t.dtype for _, t in state])


class KeptStateTest(WeftCase):
    def run_of(self, text):
        problem = self.write("problem.py", text)
        return problem, self.weft("run", problem, "--out", self.path("run"),
                                  *QUICK)

    def assert_steps_are_equal(self, problem):
        new = self.path("run/composed/model_new.py")
        done = subprocess.run([sys.executable, "-c", STEPS, problem, new],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout, "equal\n", done.stderr)

    def test_a_tensor_bound_anew_in_each_call_is_kept(self):
        problem, done = self.run_of(RECURRENT)
        self.assert_ends(done, 0)
        self.assert_steps_are_equal(problem)

    def test_what_changes_its_shape_is_refused(self):
        done = self.run_of(RECURRENT.replace(
            "return torch.relu(self.read(self.hidden)) * 2",
            "y = self.read(self.hidden)\n        self.hidden = x[:2]\n        return y"))[1]
        self.assert_ends(done, 2, "binds hidden", "[4, 24]", "[2, 16]")

    def verdict_on(self, body):
        """Of a candidate with that forward()."""
        start = RECURRENT.index("        self.hidden = self.hidden.to")
        end = RECURRENT.index("\n\ndef get_inputs")
        text = RECURRENT[:start] + body + RECURRENT[end:]
        candidate = self.write("new.py", text.replace("Model(", "ModelNew(", 1))
        done = self.weft("eval", self.write("old.py", RECURRENT), candidate,
                         "--target", "cpu", "--no-timing", "--json")
        return done.returncode, json.loads(done.stdout)["verdict"]

    def test_a_candidate_that_keeps_it_alike_is_accepted(self):
        code, verdict = self.verdict_on(
            "        h = self.mix(torch.cat((x, self.hidden), 1)).tanh()\n"
            "        self.hidden = h\n"
            "        return torch.relu(self.read(h)) * 2\n")
        self.assertEqual(code, 0, verdict)

    def test_a_candidate_that_forgets_it_is_rejected(self):
        code, verdict = self.verdict_on(
            "        h = self.mix(torch.cat((x, self.hidden), 1)).tanh()\n"
            "        return torch.relu(self.read(h)) * 2\n")
        self.assertEqual(code, 1)
        self.assertIn("hidden", verdict["reason"])


if __name__ == "__main__":
    unittest.main()
