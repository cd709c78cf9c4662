"""A process that forks, as servers do that load a model first."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import unittest

import torch
from backend_case import BUDGET_S, WAIT_S, BackendCase, Net

import weft
import weft.backend
from weft.backend.entry import compiled_graph as compiled_graphs
from weft.backend.searches.search_state import FORKED
from weft.backend.implementations import timing_rounds
from weft.backend.searches import search_ownership, weft_process

#: Of a child process, in which a call would wait for BUDGET_S.
CHILD_S = 120


class Program:
    """A program of its own, which forks while another thread searches."""

    def __init__(self):
        timing_rounds.select_fastest = lambda framework, kernels, *_: (kernels or framework, 0.0)
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        self.x = torch.randn(4, 12)

    def compiled(self, wait, **options):
        return torch.compile(
            Net(),
            backend=weft.backend.compile,
            options={"wait": wait, "budget_s": BUDGET_S, **options},
        )

    def let_it_end(self):
        """The search that FAKE_WEFT=waits holds up."""
        with open(os.environ["FAKE_WEFT_RUNS"] + ".go", "wb"):
            pass

    def states(self):
        return [
            kernels.state
            for graph in compiled_graphs.all_compiled_graphs()
            for kernels in graph.kernels.values()
        ]

    def until_it_runs(self):
        """Waits for the search; who runs it."""
        while not weft_process._running:
            time.sleep(0.05)
        (child,) = weft_process._running
        return child

    def until_settled(self):
        for graph in compiled_graphs.all_compiled_graphs():
            for kernels in graph.kernels.values():
                assert kernels.settled.wait(CHILD_S)

    def in_child(self, work, *locks):
        """Ends as other programs do, by all that is to be done at an exit. The
        locks are held while it forks."""
        with contextlib.ExitStack() as held:
            for lock in locks:
                held.enter_context(lock)
            pid = os.fork()
        if pid == 0:
            signal.alarm(CHILD_S)
            work()
            sys.exit()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == 0, status

    def a_new_graph(self):
        theirs = self.compiled(wait=True)
        theirs(self.x)

        def refused():
            mine = self.compiled(wait=True)
            mine(self.x[:2]), theirs(self.x)
            assert self.states() == ["ready", "pytorch"], weft.explain()
            assert search_ownership.WORKER in str(weft.explain())

        def allowed():
            mine = self.compiled(wait=True, worker_searches=True)
            mine(self.x[:2]), theirs(self.x)
            assert self.states() == ["ready"] * 2, weft.explain()

        def found_before():
            mine = self.compiled(wait=True)
            mine(self.x[:2])
            assert self.states() == ["ready"] * 2, weft.explain()

        for work in (refused, allowed, found_before):
            self.in_child(work)

    def a_graph_that_is_searched_for(self):
        os.environ["FAKE_WEFT"] = "waits"
        mine = self.compiled(wait=False)
        expected = mine(self.x)
        self.until_it_runs()

        def work():
            assert self.states() == ["forked"], weft.explain()
            assert FORKED in str(weft.explain())
            mine(self.x)
            assert self.states() == ["searching"], weft.explain()
            self.let_it_end()
            self.until_settled()
            mine(self.x)
            assert self.states() == ["ready"], weft.explain()
            torch.testing.assert_close(mine(self.x), expected)

        (graph,) = compiled_graphs.all_compiled_graphs()
        # As other threads hold them, which a child does not have.
        self.in_child(
            work, weft_process._running_lock, compiled_graphs._searches._lock, graph._lock
        )
        self.until_settled()
        mine(self.x)
        assert self.states() == ["ready"], weft.explain()

    def inputs_that_are_searched_for(self):
        mine, report = weft.optimize(Net(), [self.x], budget_s=BUDGET_S)
        assert report.ready, report
        os.environ["FAKE_WEFT"] = "waits"
        x = self.x[:2]
        mine(x), mine(x)  # begins when it comes again
        self.until_it_runs()

        def work():
            mine(x)
            self.let_it_end()
            self.until_settled()
            mine(x)
            before = mine.__dict__["_weft"].calls
            mine(x), mine(self.x)
            assert mine.__dict__["_weft"].calls == before + 2, weft.explain(mine)

        self.in_child(work, mine.__dict__["_weft"]._lock)

    def an_exit(self):
        os.environ["FAKE_WEFT"] = "hangs"
        self.compiled(wait=False)(self.x)
        child = self.until_it_runs()
        self.in_child(lambda: None)
        assert child.process.poll() is None, "the search was ended"
        assert self.states() == ["searching"], weft.explain()


class Fork(BackendCase):
    def check(self, name, runs):
        done = subprocess.run(
            [
                sys.executable,
                "-B",
                "-W",
                "ignore",
                "-c",
                f"import test_fork\ntest_fork.Program().{name}()",
            ],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(
                    os.path.dirname(path) for path in (os.path.dirname(weft.__file__), __file__)
                ),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_S,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.runs(), runs)

    def test_a_child_searches_only_if_it_may(self):
        self.check("a_new_graph", runs=2)

    def test_a_child_takes_what_its_parent_s_search_finds(self):
        self.check("a_graph_that_is_searched_for", runs=1)
        os.remove(self.runs_file + ".go")
        self.check("inputs_that_are_searched_for", runs=3)

    def test_a_child_s_end_leaves_its_parent_s_search_alone(self):
        """And a child that calls nothing searches for nothing."""
        self.check("an_exit", runs=1)


if __name__ == "__main__":
    unittest.main()
