"""Several processes with one graph: one of them searches for it. Worker processes do
not."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

from backend_case import FAKE, WAIT_S, BackendCase, Net
from torch.utils.data import DataLoader, Dataset
from weft_case import long

import torch
import weft
from weft.backend.searches import search_ownership
from weft.backend.options import options_from

#: A rank of a job: calls the model, and says what state its graph is in once its
#: search, or another rank's, has ended.
RANK = """
import sys, time, torch
sys.path[:0] = sys.argv[1:]
from backend_case import BUDGET_S, Net
import weft, weft.backend
from weft.backend.entry import compiled_graph as compiled_graphs
from weft.backend.implementations import timing_rounds
timing_rounds.select_fastest = lambda framework, kernels, *_: (kernels or framework, 0.0)
torch.manual_seed(1)
torch.set_num_threads(1)
mine, x = torch.compile(Net(), backend=weft.backend.compile, options={
    "budget_s": BUDGET_S}), torch.ones(4, 12)
with torch.no_grad():
    mine(x)
    print("called", flush=True)
    [graph] = compiled_graphs.all_compiled_graphs()
    [kernels] = graph.kernels.values()
    kernels.settled.wait(BUDGET_S)
    mine(x)
print(kernels.state, flush=True)
print(kernels.reason, flush=True)
"""


class Ranks(BackendCase):
    def begin(self):
        paths = [os.path.dirname(os.path.dirname(weft.__file__)), os.path.dirname(FAKE)]
        rank = subprocess.Popen(
            [sys.executable, "-B", "-W", "ignore", "-c", RANK, *paths],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(rank.stdout.close)
        self.addCleanup(rank.wait)
        self.addCleanup(rank.kill)
        return rank

    def until_runs(self, count):
        until = time.monotonic() + WAIT_S
        while self.runs() < count:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)

    def ranks_of_one_search(self, how, count):
        """Ranks that all wait for one search, which ends now."""
        self.set_environment(FAKE_WEFT=how)
        ranks = [self.begin() for _ in range(count)]
        for rank in ranks:  # a call does not wait for another process's search
            self.assertEqual(rank.stdout.readline(), "called\n")
        self.until_runs(1)
        with open(self.runs_file + ".go", "wb"):
            pass
        return ranks

    def check(self, count):
        for rank in self.ranks_of_one_search("waits", count):
            self.assertEqual(rank.stdout.readline(), "ready\n")
        self.assertEqual(self.runs(), 1)

    def test_ranks_begin_one_search(self):
        self.check(2)

    @long
    def test_eight_ranks_begin_one_search(self):
        self.check(8)

    def check_failure(self, count):
        """One search fails: that is the answer for all who wait."""
        for rank in self.ranks_of_one_search("waits and fails", count):
            self.assertEqual(rank.stdout.readline(), "pytorch\n")
            self.assertIn("this run fails", rank.stdout.readline())
        self.assertEqual(self.runs(), 1)
        later = self.begin()  # the next program tries it anew
        self.assertEqual(later.stdout.readline(), "called\n")
        self.assertEqual(later.stdout.readline(), "pytorch\n")
        self.assertEqual(self.runs(), 2)

    def test_a_failed_search_is_not_repeated_by_who_waits(self):
        self.check_failure(3)

    @long
    def test_eight_ranks_share_a_failure(self):
        self.check_failure(8)

    def test_who_searched_and_died_is_succeeded(self):
        self.set_environment(FAKE_WEFT="hangs")
        first = self.begin()
        self.until_runs(1)
        self.set_environment(FAKE_WEFT="right")
        second = self.begin()
        self.assertEqual(second.stdout.readline(), "called\n")
        self.assertEqual(self.runs(), 1)
        first.send_signal(signal.SIGKILL)
        self.assertEqual(second.stdout.readline(), "ready\n")
        self.assertEqual(self.runs(), 2)


class Rows(Dataset):
    """Computed by a compiled function, in a loader's worker."""

    def __init__(self, compiled):
        self.compiled = compiled

    def __len__(self):
        return 2

    def __getitem__(self, index):
        with torch.no_grad():
            return self.compiled(torch.full((4, 12), float(index)))


class Workers(BackendCase):
    def test_a_loader_s_workers_begin_no_search(self):
        net = Net().eval()
        compiled = self.compiled(net, wait=False)
        with torch.no_grad():
            expected = torch.stack([net(torch.full((4, 12), float(i))) for i in range(2)])
        for _ in range(2):
            rows = list(DataLoader(Rows(compiled), num_workers=1, batch_size=2))
            torch.testing.assert_close(rows, [expected])
        self.assertEqual(self.runs(), 0)

    def test_who_is_a_worker(self):
        asked = {value: options_from({"worker_searches": value}) for value in (None, True, False)}
        self.assertFalse(search_ownership.is_worker())
        self.assertTrue(all(map(search_ownership.may_search, asked.values())))
        with mock.patch.object(multiprocessing, "parent_process", mock.Mock()):
            self.assertTrue(search_ownership.is_worker())
            self.assertEqual(
                [search_ownership.may_search(one) for one in asked.values()], [False, True, False]
            )
            self.set_environment(WEFT_WORKER_SEARCHES="1")
            self.assertEqual(
                [search_ownership.may_search(one) for one in asked.values()], [True, True, False]
            )
        with self.assertRaisesRegex(ValueError, "worker_searches"):
            options_from({"worker_searches": "no"})

    def test_a_key_is_one_thread_s_at_a_time(self):
        with search_ownership.turn("abc", False, None) as is_ours:
            self.assertTrue(is_ours)
            ends = mock.Mock(is_set=mock.Mock(side_effect=[False, True]))
            with search_ownership.turn("abc", False, ends) as other:
                self.assertFalse(other)
            with search_ownership.turn("abd", False, None) as another:
                self.assertTrue(another)
        with search_ownership.turn("abc", True, None) as awaited:
            self.assertFalse(awaited)


if __name__ == "__main__":
    unittest.main()
