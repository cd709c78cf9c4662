"""Shared by the tests of weft in a user's process: a separate cache,
and a program that gives modules at once."""

import os
import shutil
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import torch
from torch import nn

import weft
import weft.backend
import weft_case
from weft.backend.entry import compiled_graph as compiled_graphs
from weft.backend.implementations import call_trial, timing_rounds
from weft.backend.searches import search, weft_process, whole_program
from weft.backend.searches.background_verification import rechecks

#: No test waits for it, but one that says so; a busy machine must not either.
BUDGET_S = 3000
#: For what is under way on a busy machine.
WAIT_S = 300
#: What a search comes to on a machine that others keep busy.
BUSY = "no generated kernel is faster|there was no time|stopped after|not timed|budget"
FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_weft.py")


class Net(nn.Module):
    """A product, something pointwise and a softmax, with a setting."""

    def __init__(self, width=12):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.rand(width))
        self.factor = 2.0

    def forward(self, x):
        y = torch.tanh(self.linear(torch.relu(x) * self.scale))
        return torch.softmax(self.norm(y) + x * self.factor, dim=-1)


class BackendCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="weft-backend-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.runs_file = os.path.join(self.folder, "runs")
        self.set_environment(
            WEFT_CACHE_DIR=os.path.join(self.folder, "cache"),
            WEFT_BIN=FAKE,
            WEFT_NICE="0",
            FAKE_WEFT="right",
            FAKE_WEFT_RUNS=self.runs_file,
        )
        # Played kernels are not faster; what comes of that is test_timing_rounds's.
        self.patch(
            timing_rounds,
            "select_fastest",
            lambda framework, kernels, *_: (kernels or framework, 0.0),
        )
        self.patch(call_trial.Trial, "speed", lambda *_: call_trial.CallSpeed(2.0, True))
        self.addCleanup(self.judged)  # in this test's environment
        torch._dynamo.reset()
        torch.manual_seed(1)
        self.alive = list(compiled_graphs.all_compiled_graphs())  # ids are not used twice
        self.before = {id(graph) for graph in self.alive}
        self.programs_before = {one.number for one in whole_program.all_programs()}

    def patch(self, where, name, value):
        patch = mock.patch.object(where, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def set_environment(self, **variables):
        patch = mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)

    def compiled(self, module, dynamic=None, **options):
        options = {"wait": True, "budget_s": BUDGET_S, **options}
        return torch.compile(module, backend=weft.backend.compile, dynamic=dynamic, options=options)

    def compiled_graphs(self, role=None):
        return [
            graph
            for graph in compiled_graphs.all_compiled_graphs()
            if id(graph) not in self.before and (role is None or graph.role == role)
        ]

    def programs(self, role=None):
        """Graphs that Inductor compiled whole in this test."""
        return [
            one
            for one in whole_program.all_programs()
            if one.number not in self.programs_before and (role is None or one.role == role)
        ]

    def states(self, role=None):
        return [
            kernels.state
            for graph in self.compiled_graphs(role)
            for kernels in graph.kernels.values()
        ]

    def reasons(self):
        return [
            kernels.reason for graph in self.compiled_graphs() for kernels in graph.kernels.values()
        ]

    def words(self):
        """What the program was asked, a line each time."""
        if not os.path.exists(self.runs_file):
            return []
        with open(self.runs_file, encoding="utf-8") as file:
            return file.readlines()

    def runs(self):
        """How often the program was asked."""
        return len(self.words())

    def judged(self):
        """Waits for the full verdicts on kernels of the store."""
        until = time.monotonic() + WAIT_S
        while rechecks.queue.unfinished_tasks:
            self.assertLess(time.monotonic(), until, "no full verdict")
            time.sleep(0.05)

    def in_threads(self, count, work):
        """What went wrong in that many threads, of which each does work(its
        number): all begin at once."""
        failures, begin = [], threading.Barrier(count)

        def guarded(number):
            try:
                begin.wait(WAIT_S)
                work(number)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return failures

    def assert_same(self, got, expected):
        torch.testing.assert_close(got, expected)


class OptimizingCase(BackendCase):
    """Modules that a test has weft.optimize make, for one kind of inputs each."""

    def optimized(self, module, *inputs, ready=True):
        with torch.no_grad():
            mine, report = weft.optimize(module, list(inputs), shapes_max=1, budget_s=BUDGET_S)
        self.assertEqual(report.ready, ready, str(report))
        self.report = report
        return mine

    def calls(self, module):
        """Calls that kernels computed so far."""
        made = module.__dict__.get("_weft")
        return made.calls if made else 0


class OptimizedCase(OptimizingCase):
    """A module that weft.optimize has made."""

    def setUp(self):
        super().setUp()
        self.net, self.x = Net(), torch.randn(4, 12)
        self.mine, self.report = weft.optimize(self.net, [self.x], budget_s=BUDGET_S)
        self.assertTrue(self.report.ready, str(self.report))

    def calls(self, module=None):
        return super().calls(module or self.mine)

    def check(self, by_kernels, x=None, net=None, mine=None):
        net, mine = net or self.net, mine or self.mine
        x = self.x if x is None else x
        before = self.calls(mine)
        self.assert_same(mine(x), net(x))
        self.assertEqual(self.calls(mine) - before, int(by_kernels))


class RealSearches(BackendCase):
    """By the program that was built, on a processor; its calls are counted."""

    def setUp(self):
        super().setUp()
        self.set_environment(WEFT_BIN=weft_case.WEFT, **weft_case.ENVIRONMENT)
        for name, limits in (("TIMING_MS", (50, 100)), ("FINAL_MS", (100, 300))):
            self.patch(search, name, limits)
        self.searches = []
        real = weft_process.run

        def counted(words, *rest, **named):
            self.searches.append(words)
            return real(words, *rest, **named)

        self.patch(weft_process, "run", counted)

    def until_ours(self, work, ready=None):
        """What work() gives, once kernels of ours compute: anew where the
        machine was too busy to see that they are faster."""
        for _ in range(5):
            torch._dynamo.reset()
            weft.cache.clear()
            self.searches.clear()
            self.alive += self.compiled_graphs()
            self.before = {id(one) for one in self.alive}
            made = work()
            if ready(made) if ready else "ready" in self.states():
                return made
            for reason in filter(None, self.reasons()):
                self.assertRegex(reason, BUSY)
            print(weft.explain(), file=sys.stderr)
        self.fail(f"no kernel of ours ran:\n{weft.explain()}")

    def optimized(self, module, x, **asked):
        """By one search."""
        ours, _ = self.until_ours(
            lambda: weft.optimize(module, [x], variants=1, target="cpu", budget_s=600, **asked),
            ready=lambda made: made[1].ready,
        )
        return ours

    def compiled_for(self, module, x, marks):
        """By one search, with those dimensions of x marked as dynamic."""

        def work():
            compiled, marked = self.compiled(module, variants=1), x.clone()
            for dim in marks:
                torch._dynamo.mark_dynamic(marked, dim)
            with torch.no_grad():
                self.assert_same(compiled(marked), module(x))
            return compiled

        return self.until_ours(work)
