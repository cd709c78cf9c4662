"""Models that keep tensors for their next call in plain attributes."""

import json
import subprocess
import sys
import unittest

import torch

from weft_case import LOAD_BOTH, QUICK, WeftCase
from weft.problem.attribute_buffers import adopt_named, changed_attributes
from weft.problem.attribute_state import write_back
from weft.problem.module_state import random_state, state_of

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
STEPS = (
    LOAD_BOTH
    + """
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
)


class ChangedAttributesTest(unittest.TestCase):
    def changed(self, *lines, arguments="self, x"):
        body = "\n".join(f"        {line}" for line in lines)
        return changed_attributes(
            f"class Model:\n    def __init__(self):\n        self.made = 0\n"
            f"    def forward({arguments}):\n{body}\n"
        ).get("Model")

    def test_what_is_bound_or_written_counts(self):
        self.assertEqual(
            self.changed(
                "self.a = x",
                "self.b += 1",
                "self.c[:, 0] = x",
                "self.d.copy_(x)",
                "(self.e, [self.f]) = x",
                "torch.add(x, x, out=self.g)",
                "self.h[0].add_(1)",
                "self.i.data.mul_(2)",
            ),
            set("abcdefghi"),
        )

    def test_what_is_only_read_does_not_count(self):
        self.assertEqual(
            self.changed(
                "y = self.a + self.b.sum()",
                "y.c = x",
                "self.d.e = x",
                "self.__len__()",
                "return self.made",
            ),
            set(),
        )

    def test_only_what_forward_may_come_to_counts(self):
        self.assertEqual(
            changed_attributes(
                "class Model:\n"
                "    def __init__(self):\n        self.build()\n"
                "    def build(self):\n        self.table = 1\n"
                "    def step(self):\n        self.hidden = 2\n"
                "    def forward(self, x):\n        self.step()\n"
            ),
            {"Model": {"hidden"}},
        )

    def test_the_first_argument_may_have_any_name(self):
        self.assertEqual(self.changed("me.a = x", "self.b = x", arguments="me, x"), {"a"})


class RandomStateTest(unittest.TestCase):
    def test_statistics_of_a_half_type_stay_of_that_type(self):
        state = state_of(torch.nn.BatchNorm1d(3).bfloat16())
        made = random_state(state, torch.Generator().manual_seed(1))
        self.assertEqual([t.dtype for t in made], [t.dtype for _, t in state])


class AdoptTest(unittest.TestCase):
    def test_names_that_began_with_one_tensor_are_kept_apart(self):
        model = torch.nn.Module()
        model.h = model.c = torch.ones(3)
        self.assertTrue(adopt_named(model, "h"))
        self.assertTrue(adopt_named(model, "c"))
        self.assertIsNot(model.h, model.c)
        self.assertEqual(list(model.state_dict()), [])

    def test_what_cannot_be_a_buffer_stays_what_it_is(self):
        class Model(torch.nn.Module):
            hidden = None

        model = Model()
        model.hidden, model.later = torch.ones(3), torch.empty(0)
        for name in ("hidden", "later", "nothing", "no.where"):
            self.assertFalse(adopt_named(model, name), name)


class WriteBackTest(unittest.TestCase):
    def after(self, forward):
        """The result for [4, 5], and buffers a and b, which were 1 and 2; once
        as they are, once written back."""
        found = []
        for writes in (False, True):
            model = torch.nn.Module()
            model.register_buffer("a", torch.full((2,), 1.0))
            model.register_buffer("b", torch.full((2,), 2.0))
            model.forward = lambda x, model=model: forward(model, x)
            if writes:
                write_back(None, model)
            result = model(torch.tensor([4.0, 5.0]))
            found.append([t.tolist() for t in (result, model.a, model.b)])
        return found

    def assert_alike(self, forward):
        plain, written = self.after(forward)
        self.assertEqual(plain, written)

    def test_values_are_read_before_one_is_written(self):
        def shift(m, x):
            m.a, m.b = m.b, x + 1
            return m.a * 2

        def swap(m, x):
            m.a, m.b = m.b, m.a
            return x

        self.assert_alike(shift)
        self.assert_alike(swap)

    def test_the_result_may_be_what_was_kept_before(self):
        def delay(m, x):
            y, m.a = m.a, x * 2
            return y

        def view(m, x):
            y, m.a = m.a[:1], x * 2
            return y

        self.assert_alike(delay)
        self.assert_alike(view)


class KeptStateTest(WeftCase):
    def run_of(self, text):
        problem = self.write("problem.py", text)
        return problem, self.weft("run", problem, "--out", self.path("run"), *QUICK)

    def assert_steps_are_equal(self, problem):
        new = self.path("run/composed/model_new.py")
        done = subprocess.run(
            [sys.executable, "-c", STEPS, problem, new], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.stdout, "equal\n", done.stderr)

    def test_a_tensor_bound_anew_in_each_call_is_kept(self):
        problem, done = self.run_of(RECURRENT)
        self.assert_ends(done, 0)
        self.assert_steps_are_equal(problem)

    def test_what_changes_its_shape_is_refused(self):
        done = self.run_of(
            RECURRENT.replace(
                "return torch.relu(self.read(self.hidden)) * 2",
                "y = self.read(self.hidden)\n        self.hidden = x[:2]\n        return y",
            )
        )[1]
        self.assert_ends(done, 2, "binds hidden", "[4, 24]", "[2, 16]")

    def verdict_on(self, body, problem=RECURRENT):
        """Of a candidate with that forward()."""
        start = problem.index("        self.hidden = self.hidden.to")
        end = problem.index("\n\ndef get_inputs")
        text = problem[:start] + body + problem[end:]
        candidate = self.write("new.py", text.replace("Model(", "ModelNew(", 1))
        done = self.weft(
            "eval",
            self.write("old.py", problem),
            candidate,
            "--target",
            "cpu",
            "--no-timing",
            "--json",
        )
        return done.returncode, json.loads(done.stdout)["verdict"]

    def test_a_candidate_that_keeps_it_alike_is_accepted(self):
        code, verdict = self.verdict_on(
            "        h = self.mix(torch.cat((x, self.hidden), 1)).tanh()\n"
            "        self.hidden = h\n"
            "        return torch.relu(self.read(h)) * 2\n"
        )
        self.assertEqual(code, 0, verdict)

    def test_state_that_begins_with_zeros_is_not_left_zero(self):
        code, verdict = self.verdict_on(
            "        self.hidden = torch.tanh(torch.nn.functional.linear(\n"
            "            x, self.mix.weight[:, :16], self.mix.bias))\n"
            "        return torch.relu(self.read(self.hidden)) * 2\n",
            RECURRENT.replace("torch.randn(4, 24)", "torch.zeros(4, 24)"),
        )
        self.assertEqual(code, 1, verdict)

    def test_a_candidate_that_forgets_it_is_rejected(self):
        code, verdict = self.verdict_on(
            "        h = self.mix(torch.cat((x, self.hidden), 1)).tanh()\n"
            "        return torch.relu(self.read(h)) * 2\n"
        )
        self.assertEqual(code, 1)
        self.assertIn("hidden", verdict["reason"])


if __name__ == "__main__":
    unittest.main()
