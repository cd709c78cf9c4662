"""References some of whose tensors share memory: what holds a candidate has
them share it, too, in float32 and in float64."""

import json
import os
import tempfile
import unittest
from functools import partial

import torch

from weft_case import WeftCase, problem_with
from weft.problem.module_state import agreed, fill, state_of, widened
from weft.judge.whole_model import WholeModel

# A buffer, and its first rows under another name.
ROWS = (
    "self.register_buffer('a', torch.randn(8, 16))\n        self.register_buffer('b', self.a[:4])"
)
APART = ROWS + "\n        self.b = self.b.clone()"
WRITES = "self.a.add_(x)\n        return self.b * 2 + x[:4]"
BOTH = "self.b.add_(x[:4])\n        " + WRITES
PLAIN = "self.cache = torch.zeros(8, 16)\n        self.row = self.cache[0]"


def rows():
    model = torch.nn.Module()
    model.register_buffer("a", torch.randn(8, 16))
    model.register_buffer("b", model.a[:4])
    model.first = [model.a[0]]
    return model


class SharedMemoryTest(unittest.TestCase):
    def test_a_buffer_of_two_names_has_both(self):
        model = torch.nn.Module()
        model.register_buffer("a", torch.ones(3))
        model.register_buffer("b", model.a)
        self.assertEqual([name for name, _ in state_of(model)], ["a", "b"])

    def test_a_tied_parameter_has_one(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
        model[1].weight = model[0].weight
        self.assertEqual([name for name, _ in state_of(model)], ["0.weight", "0.bias", "1.bias"])

    def test_values_agree_where_memory_is_one(self):
        values = agreed(state_of(rows()), [torch.zeros(8, 16), torch.ones(4, 16)])
        self.assertEqual([v.sum().item() for v in values], [64, 64])

    def test_in_float64_memory_is_one_too(self):
        wide = widened(rows())
        wide.a.fill_(3)
        for tensor in (wide.b, wide.first[0]):
            self.assertEqual(tensor.dtype, torch.float64)
            self.assertTrue((tensor == 3).all())

    def test_tied_data_of_parameters_is_one_in_float64(self):
        layer = partial(torch.nn.Linear, 3, 3, dtype=torch.float64)
        model = torch.nn.Sequential(layer(), layer())
        model[1].weight.data = model[0].weight.data
        wide = widened(model)
        wide[0].weight.data.fill_(3)
        self.assertTrue((wide[1].weight == 3).all())
        self.assertFalse((model[0].weight == 3).any())

    def test_an_expanded_buffer_takes_values(self):
        held = torch.zeros(1, 3).expand(4, 3)
        fill(held, torch.ones(4, 3))
        self.assertEqual(held.sum().item(), 12)


class ReferenceTest(unittest.TestCase):
    def assert_float64_agrees(self, init, forward):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "problem.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(problem_with(forward, init=init))
            whole = WholeModel(path, 1)
        case = whole.case("given", whole.device.generator(1))
        self.assertTrue(whole._uses_float64)
        for made in case.expectations:
            self.assertLess(made.framework_error, 1e-5, made.name)

    def test_a_view_that_is_read_before_it_is_written(self):
        self.assert_float64_agrees(ROWS, "y = self.b * 2\n        self.a.add_(x)\n        return y")

    def test_statistics_of_two_layers(self):
        self.assert_float64_agrees(
            "self.p, self.q = nn.BatchNorm1d(16), nn.BatchNorm1d(16)\n"
            "        self.q.running_mean = self.p.running_mean",
            "return self.q(self.p(x) + 1)",
        )

    def test_a_parameter_s_data_in_a_buffer(self):
        self.assert_float64_agrees(
            "self.lin = nn.Linear(16, 16)\n        self.register_buffer('w', self.lin.weight.data)",
            "return self.lin(x) @ self.w",
        )

    def test_an_expanded_buffer(self):
        self.assert_float64_agrees(
            "self.register_buffer('m', torch.randn(16).expand(8, 16))", "return x * self.m"
        )

    def test_what_forward_leaves_alone_is_not_worked_out(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "problem.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(
                    problem_with("return self.norm(x)", init="self.norm = nn.BatchNorm1d(16)")
                )
            whole = WholeModel(path, 1)
        case = whole.case("given", whole.device.generator(1))
        self.assertEqual(
            [made.name for made in case.expectations if not made.is_untouched],
            ["output0", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"],
        )


class JudgedTest(WeftCase):
    def judge(self, reference, *candidates):
        """The run, and what was said of each candidate's (init, forward)."""
        files = [self.write("old.py", problem_with(*reversed(reference)))]
        for number, (init, forward) in enumerate(candidates):
            text = problem_with(forward, init=init)
            files.append(self.write(f"new{number}.py", text.replace("Model(", "ModelNew(", 1)))
        done = self.weft("eval", *files, "--target", "cpu", "--no-timing", "--json")
        return done, [json.loads(line) for line in done.stdout.splitlines()]

    def test_who_writes_both_names_is_right_and_who_writes_one_wrong(self):
        _, found = self.judge((ROWS, WRITES), (ROWS, WRITES), (APART, BOTH), (APART, WRITES))
        self.assertEqual([one["accepted"] for one in found], [True, True, False], found)
        for one in found:
            self.assertLess(one["verdict"]["tolerance"], 1e-4)

    def test_who_writes_what_model_leaves_alone_is_wrong(self):
        init = "self.lin = nn.Linear(16, 16)"
        forward = "y = self.lin(x)\n        {}\n        return y"
        writes = "self.lin.bias.data[0] {}"
        _, found = self.judge(
            (init, "return self.lin(x)"),
            *(
                (init, forward.format(writes.format(change)))
                for change in ("*= 1", "*= 1.01", "*= float('nan')")
            ),
        )
        self.assertEqual([one["accepted"] for one in found], [True, False, False], found)
        for one in found[1:]:
            self.assertIn("lin.bias[0]", one["verdict"]["reason"])

    def test_one_tensor_in_two_plain_attributes_is_refused(self):
        forward = "self.row.copy_(x[1])\n        return self.cache + x"
        done, _ = self.judge((PLAIN, forward), (PLAIN, "return x + 0"))
        self.assert_ends(done, 2, "keeps one tensor under two names", "self.name.copy_(x)")

    def test_one_that_only_a_second_call_tells_is_refused(self):
        forward = (
            "self.a.add_(1)\n        y = self.b + x\n"
            "        self.a = self.b = x * 2\n        return y"
        )
        init = "self.a, self.b = torch.ones(8, 16), torch.zeros(8, 16)"
        done, _ = self.judge((init, forward), (init, forward))
        self.assert_ends(done, 2, "keeps one tensor under two names")


if __name__ == "__main__":
    unittest.main()
