"""A budget is kept: by `weft run --budget-s`, a call that waits, and weft.optimize. Kernels
that are verified by then are used."""

import json
import os
import time
import unittest

import torch
from backend_case import Net, RealSearches
from weft_case import TINY, WeftCase, long

import weft


def latest_s(budget_s):
    """What is promised, where processors are busy; not where each has a long queue."""
    if os.getloadavg()[0] > 3 * (os.cpu_count() or 1):
        return float("inf")
    return budget_s + max(5.0, 0.1 * budget_s)


class Runs(WeftCase):
    def run_for(self, budget_s):
        """A run, whose end is looked at: (exit code, what it said)."""
        problem, run = self.write("tiny.py", TINY), self.path(f"run-{budget_s}")
        begin = time.monotonic()
        done = self.weft("run", problem, "--out", run, "--budget-s", str(budget_s))
        took_s = time.monotonic() - begin
        said = done.stdout + done.stderr
        self.assertLess(took_s, latest_s(budget_s), said)
        self.assertIn(done.returncode, (0, 1), said)
        self.assert_replays(run)
        if done.returncode == 0:
            with open(f"{run}/result.json", encoding="utf-8") as file:
                self.assertTrue(json.load(file)["verdict"]["correct"])
        else:
            self.assertIn("--budget-s", said)
        return done.returncode, said

    def test_a_run_whose_time_is_over_says_so(self):
        """To load PyTorch takes longer than that."""
        code, said = self.run_for(1)
        self.assertEqual(code, 1)
        self.assertIn("was over before tiny.py was captured", said)
        # What verifies has begun beside the capture.
        self.assertTrue(os.path.exists(self.path("run-1/logs/oracle-slot0.log")))

    def test_a_short_budget_is_kept(self):
        self.run_for(5)

    @long
    def test_longer_budgets_are_kept(self):
        self.run_for(20)
        code, said = self.run_for(120)
        self.assertEqual(code, 0, said)

    def test_a_budget_is_a_number_of_seconds(self):
        done = self.weft("run", self.write("tiny.py", TINY), "--budget-s", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--budget-s", done.stderr)


class Searches(RealSearches):
    def wait_for(self, budget_s):
        """A call that waits for its search."""
        net, x = Net(), torch.randn(4, 12)
        mine = self.compiled(net, budget_s=budget_s, cache=False, target="cpu")
        torch._dynamo.reset()
        with torch.no_grad():
            expected = net(x)
            torch.compile(Net(), backend="eager")(x)  # Dynamo is loaded
            begin = time.monotonic()
            self.assert_same(mine(x), expected)
        self.assertLess(time.monotonic() - begin, latest_s(budget_s), weft.explain())

    def optimize_for(self, budget_s):
        net, x = Net(), torch.randn(4, 12)
        with torch.no_grad():
            torch.export.export(torch.nn.ReLU(), (x,))  # which is loaded, too
            begin = time.monotonic()
            mine, report = weft.optimize(net, [x], budget_s=budget_s, cache=False, target="cpu")
        self.assertLess(time.monotonic() - begin, latest_s(budget_s), str(report))
        self.assertEqual(report.ready, not report.reason)
        self.assert_same(mine(x), net(x))

    def test_a_call_waits_for_a_short_budget(self):
        self.wait_for(5)

    def test_optimize_keeps_a_short_budget(self):
        self.optimize_for(5)

    @long
    def test_longer_budgets_are_kept(self):
        for budget_s in (20, 60):
            with self.subTest(budget_s=budget_s):
                self.wait_for(budget_s)
                self.optimize_for(budget_s)


if __name__ == "__main__":
    unittest.main()
