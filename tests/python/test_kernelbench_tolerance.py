"""The verdict of KernelBench's evaluator, as the oracle predicts it."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import torch

from weft.candidate.slot import CandidateFailed
from weft.judge import kernelbench_tolerance
from weft.oracle import judge_kernelbench_tolerance

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PROBLEM = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {takes}):
        {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def text_of(name, forward, init="pass", inputs="torch.rand(8, 96)", takes="x"):
    return PROBLEM.format(name=name, forward=forward, init=init, inputs=inputs, takes=takes)


class Rule(unittest.TestCase):
    def test_trials_have_the_seeds_that_kernelbench_draws(self):
        torch.manual_seed(42)
        wanted = [torch.randint(0, 2**32 - 1, (1,)).item() for _ in range(5)]
        self.assertEqual(kernelbench_tolerance.trial_seeds(), wanted)

    def test_elements_differ_as_allclose_has_it(self):
        torch.manual_seed(1)
        nan, inf = float("nan"), float("inf")
        for one, two in (
            (torch.randn(99), torch.randn(99)),
            (torch.tensor([1.0, 0.0]), torch.tensor([1.0002, 0.0])),
            (torch.tensor([1.0, 0.0]), torch.tensor([1.00019, 0.0])),
            (torch.tensor([0.0]), torch.tensor([1.01e-4])),
            (torch.tensor([0.0]), torch.tensor([0.99e-4])),
            (torch.tensor([inf, -inf]), torch.tensor([inf, -inf])),
            (torch.tensor([inf]), torch.tensor([-inf])),
            (torch.tensor([nan]), torch.tensor([nan])),
            (torch.tensor([3, 4]), torch.tensor([3, 5])),
            (torch.tensor([True]), torch.tensor([False])),
        ):
            _, wrong = kernelbench_tolerance.difference(one, two, 1e-4)
            if one.dtype == torch.bool:
                self.assertEqual(wrong, 1)
                continue
            self.assertEqual(wrong == 0, torch.allclose(one, two, rtol=1e-4, atol=1e-4))

    def test_it_is_the_same_in_pieces(self):
        one, two = torch.randn(2, 500), torch.randn(2, 500)
        whole = kernelbench_tolerance.difference(one, two, 1e-2)
        before, kernelbench_tolerance.CHUNK = kernelbench_tolerance.CHUNK, 64
        try:
            self.assertEqual(kernelbench_tolerance.difference(one, two, 1e-2), whole)
        finally:
            kernelbench_tolerance.CHUNK = before


#: name: forward() of Model and of ModelNew.
CASES = {
    "same": ("return torch.relu(self.linear(x))",) * 2,
    "near": ("return torch.softmax(x, -1)", "y = torch.exp(x); return y / y.sum(-1, keepdim=True)"),
    # Right in float32, and not near: the products are large, and cancel.
    "far": (
        "y = (x - 0.5) * 1e5; return y @ y.t()",
        "y = (x - 0.5) * 1e5; return y[:, :48] @ y[:, :48].t() + y[:, 48:] @ y[:, 48:].t()",
    ),
    "drawing": ("return F.dropout(x, 0.5)",) * 2,
    "drawing in vain": ("return F.dropout(x, 0.5) * 0",) * 2,
    "labels": ("return F.cross_entropy(x, y)",) * 2,
    "mask": ("return x * y",) * 2,
    "counting": ("self.count += 1; return x * self.count",) * 2,
    "half": ("return x * 1.5", "return x * 1.504"),
    "compiled": ("return torch.softmax(x, -1) * 2",) * 2,
}
LINEAR = {"init": "self.linear = nn.Linear(96, 96)"}
OTHERS = {
    "same": LINEAR,
    "far": {"inputs": "torch.rand(512, 96)"},
    "labels": {"takes": "x, y", "inputs": "torch.rand(8, 96), torch.randint(0, 9, (8,))"},
    "mask": {"takes": "x, y", "inputs": "torch.rand(8, 96), torch.rand(8, 96) > 0.5"},
    "counting": {"init": "self.register_buffer('count', torch.zeros(()))"},
    "half": {"inputs": "torch.rand(8, 96).half()"},
}


class Judged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.found = cls.judge(folder)

    @classmethod
    def judge(cls, folder):
        """{case: its verdict}, of one oracle."""
        requests = []
        for number, (case, forwards) in enumerate(CASES.items()):
            paths = []
            for name, forward in zip(("Model", "ModelNew"), forwards):
                path = os.path.join(folder, f"{number}_{name}.py")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text_of(name, forward, **OTHERS.get(case, {})))
                paths.append(path)
            requests.append(
                {
                    "verb": "check_model",
                    "problem": paths[0],
                    "composed": paths[1],
                    "random_seed": 1,
                    "rules": ["kernelbench"],
                    "baselines": ["eager"],
                }
            )
            if case == "compiled":
                requests[-1]["baselines"].append("compile")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "weft.oracle.oracle",
                "--scratch",
                os.path.join(folder, "scratch"),
                "--threads",
                "1",
            ],
            input="".join(json.dumps(r) + "\n" for r in requests),
            text=True,
            capture_output=True,
            check=False,
            timeout=500,
            env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")},
        )
        replies = [json.loads(line) for line in done.stdout.splitlines()]
        if len(replies) != len(CASES):
            raise AssertionError(done.stderr)
        return dict(zip(CASES, replies))

    def near(self, case):
        reply = self.found[case]
        self.assertTrue(reply["ok"], reply)
        return reply["verdict"]["kernelbench"]

    def test_what_is_near_in_five_draws_is_near(self):
        for case in ("same", "near", "counting", "half", "drawing in vain"):
            with self.subTest(case):
                found = self.near(case)
                self.assertEqual(found["outcome"], "within", found)
                self.assertEqual(found["draws"], 5)
                self.assertEqual(found["reason"], "")
        self.assertEqual(self.near("same")["max_difference"], 0)
        self.assertGreater(self.near("near")["max_difference"], 0)

    def test_halves_have_another_tolerance(self):
        self.assertEqual(self.near("half")["tolerance"], 1e-2)
        self.assertEqual(self.near("same")["tolerance"], 1e-4)

    def test_one_far_draw_is_enough(self):
        found = self.near("far")
        self.assertEqual(found["outcome"], "outside")
        self.assertIn("draw 1", found["reason"])
        self.assertEqual(found["draws"], 1)
        self.assertIn("of eager's", found["reason"])
        self.assertGreater(found["max_difference"], 1e-4)

    def test_what_kernelbench_cannot_judge_is_said(self):
        found = self.near("drawing")
        self.assertEqual(found["outcome"], "failed")
        self.assertIn("draws random numbers", found["reason"])
        found = self.near("labels")
        self.assertEqual(found["outcome"], "failed")
        self.assertIn("casts every input", found["reason"])

    def test_a_mask_that_may_be_cast_is_judged(self):
        self.assertEqual(self.near("mask")["outcome"], "within")

    def test_torch_compile_s_module_is_judged_where_it_is_asked_for(self):
        self.assertEqual(self.near("same")["compiled"], "")
        found = self.near("compiled")
        self.assertEqual((found["outcome"], found["compiled"]), ("within", "within"), found)


class WithoutRoom(unittest.TestCase):
    """On a device whose memory runs out when eager's results are made."""

    def judge(self, may_be_short, error, begin=None, call=None):
        whole = mock.Mock(tensors=[], state=[])
        whole.device.may_be_short = may_be_short
        oracle = mock.Mock(drawn=None)
        oracle.slot.call.side_effect = call
        with (
            mock.patch.object(kernelbench_tolerance, "trials", side_effect=error),
            mock.patch.object(judge_kernelbench_tolerance.verify_model, "begin", side_effect=begin),
        ):
            return judge_kernelbench_tolerance.judge(oracle, whole, {}, mock.Mock(), {})

    def test_it_is_tried_once_more_with_the_memory_for_itself(self):
        with self.assertRaises(torch.OutOfMemoryError):
            self.judge(False, torch.OutOfMemoryError("no 16 GiB"))

    def test_then_that_rule_alone_has_no_answer(self):
        found = self.judge(True, torch.OutOfMemoryError("no 16 GiB"))
        self.assertEqual(found["outcome"], "failed")
        self.assertIn("no room for it: no 16 GiB", found["reason"])

    def test_so_is_a_candidate_that_has_no_room(self):
        lacks = CandidateFailed("out_of_memory", "tried to allocate 6 GiB")
        trials = [[mock.Mock(outputs=[])]]
        with self.assertRaises(torch.OutOfMemoryError):
            self.judge(False, trials, call=lacks)
        found = self.judge(True, trials, call=lacks)
        self.assertEqual((found["outcome"], found["reason"]), ("failed", "tried to allocate 6 GiB"))

    def test_who_was_far_before_stays_so(self):
        found = self.judge(True, MemoryError(), begin=CandidateFailed("crashed", "it fell"))
        self.assertEqual((found["outcome"], found["reason"]), ("outside", "it fell"))

    def test_what_else_goes_wrong_is_no_answer(self):
        with self.assertRaises(ValueError):
            self.judge(True, ValueError("a fault of ours"))


if __name__ == "__main__":
    unittest.main()
