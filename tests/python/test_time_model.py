"""Contents of shared memory that a candidate finds while a whole model is timed."""

import functools
import os
import random
import statistics
import tempfile
import types
import unittest
from unittest import mock

import torch

from weft.device.device import HOST
from weft.candidate.slot import CandidateFailed
from weft.candidate.work_clock import Worked
from weft.timing.device_rounds import DeviceRounds
from weft.timing.untimed_work import CallMessages, Message, untimed_work_by
from weft.timing.baseline_calls import BaselineLost
from weft.timing.rounds import Rounds
from weft.timing.time_model import ModelBench
from weft.device.arena_keeper import ArenaKeeper
from weft.judge.whole_model import WholeModel

PROBLEM = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return torch.relu(x * self.scale)


def get_inputs():
    return [torch.rand(4, 8)]


def get_init_inputs():
    return []
"""


OFFSETS = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(10, 16)

    def forward(self, ids, offsets, weights):
        return torch.relu(self.bag(ids, offsets)) * weights


def get_inputs():
    return [torch.randint(0, 10, (7,)), torch.tensor([0, 2, 5]),
            torch.rand(3, 1)]


def get_init_inputs():
    return []
"""

POSITIVE = """import torch


class Model(torch.nn.Module):
    def forward(self, a):
        return torch.linalg.cholesky(a) * 2


def get_inputs():
    x = torch.randn(16, 16)
    return [x @ x.t() + 16 * torch.eye(16)]


def get_init_inputs():
    return []
"""


class WatchingSlot:
    """Notes what it is asked for, and whether the inputs were there then."""

    worked = Worked(400_000, 500_000)

    def __init__(self, bench, whole):
        self._bench, self._whole = bench, whole
        self.asked = []

    def call(self, wall_ms, steps, **how):
        held = self._whole.buffers.input_storages[0]
        is_there = torch.equal(held.reshape(-1), self._bench._kept[0])
        self.asked.append((*steps, is_there))
        return {"ns": 1}, 0.001


def work(seconds):
    """A message in which one thread worked, and nothing waited."""
    return Message(seconds, seconds, seconds)


class OneModel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "problem.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROBLEM)
        self.whole = WholeModel(path, 1)
        self.bench = ModelBench(self.whole, path)
        keeper = ArenaKeeper(HOST)
        self.addCleanup(keeper.close)
        self.bench._arena = keeper.of(self.whole.buffers.end)
        self.bench._bind()
        self.bench._loads, self.bench._exports = [], {}
        self.bench._usual_loads, self.bench._usual_exports = [], []
        self.slot = WatchingSlot(self.bench, self.whole)


class Timing(OneModel):
    def ask(self, flush):
        self.bench._flush = flush
        self.bench.refresh(torch.Generator().manual_seed(1), random.Random(1))
        self.bench.call_candidate(self.slot, 1000)
        return self.slot.asked

    def test_a_candidate_warms_up_before_its_inputs_are_there(self):
        self.assertEqual(
            self.ask({"flush": True}), [("warm", False), ("ran", "load", True), ("run", True)]
        )

    def untimed_work(self, loads, usual, timed=None, exports=None):
        bench = self.bench
        exports = exports or {len(loads) - 1: 0.001}
        bench._loads = list(map(work, loads))
        bench._exports = {at: work(one) for at, one in exports.items()}
        bench._usual_loads = list(map(work, usual))
        bench._usual_exports = [work(0.001)]
        return bench.untimed_work(list(map(work, timed or [0.003] * len(loads))))

    def test_noise_beside_the_clock_is_not_surely_there(self):
        median, least, *_ = self.untimed_work(
            [0.002, 0.006, 0.002, 0.006, 0.006, 0.002], [0.002] * 5
        )
        self.assertAlmostEqual(median, 0.002)
        self.assertEqual(least, 0.0)

    def test_work_beside_the_clock_of_every_call_is(self):
        _, least, *_ = self.untimed_work([0.005, 0.009, 0.005], [0.002, 0.006, 0.002])
        self.assertAlmostEqual(least, 0.003)

    def test_work_beside_the_clock_in_turn_is(self):
        rounds = [(0.0, 0.009), (0.009, 0.0)] * 12 + [(0.0, 0.009)]
        for rounds in (rounds, rounds[1:] + rounds[:1] * 2):
            loads, timed = zip(*rounds)
            hidden, least, *_ = self.untimed_work([0.005, *loads], [0.0] * 25, timed)
            own = statistics.median(timed)
            self.assertAlmostEqual(own + hidden, 0.009)
            self.assertAlmostEqual(own + least, 0.009)

    def test_work_now_before_the_clock_and_now_after_it_is(self):
        loads = [0.5, *([0.009, 0.0] * 6)]
        exports = {0: 0.5, **{number: 0.010 - loads[number] for number in (1, 2, 4, 6, 9)}}
        hidden, least, *_ = self.untimed_work(loads, [0.0] * 12, [1e-5] * 12, exports)
        self.assertAlmostEqual(hidden, 0.009)
        self.assertAlmostEqual(least, 0.009)

    def test_noise_is_what_most_of_the_frameworks_vary_by(self):
        usual = [0.5, *([0.002] * 17), 0.007, 0.007, 0.090]
        found = self.untimed_work([0.5] + [0.002] * 20, usual, [0.003] * 20)
        # And what the same work may take more, among the caches of others.
        self.assertAlmostEqual(found.noise_s, 0.005 + 0.001)

    def test_the_quietest_rounds_show_what_noise_hides(self):
        """Half of the messages wait for 4 ms, so that medians say anything."""
        dice = random.Random(1)

        def waits(count):
            return [work(0.001 + 0.004 * (dice.random() < 0.5)) for _ in range(count)]

        for hidden in (0.002, 0.0):
            found = untimed_work_by(
                "seconds",
                CallMessages(
                    [work(0.0001)] * 60,
                    waits(60),
                    {number: work(hidden + one.seconds) for number, one in enumerate(waits(60))},
                    waits(120),
                    waits(60),
                ),
            )
            self.assertAlmostEqual(found.quiet_s, hidden, msg=found)
            self.assertGreater(found.most_s, hidden + 0.003)

    def test_a_device_works_while_processors_wait(self):
        bench = self.bench
        waits = Message(0.009, 0.0001, 0.0001)
        bench._loads = [work(0.001)] * 20
        bench._exports = dict.fromkeys(range(20), waits)
        bench._usual_loads = bench._usual_exports = [work(0.001)] * 20
        for flush, least in (({"flush": True}, 0.008), ({}, 0.0)):
            bench._flush = flush
            found = bench.untimed_work([work(0.003)] * 20)
            self.assertAlmostEqual(found.least_s, least)

    def test_the_call_that_wakes_counts_as_loading(self):
        device = types.SimpleNamespace(driver=types.SimpleNamespace(uuid=lambda: "none"))
        of_a_device = functools.partial(DeviceRounds, device=device)
        for flush, kind, messages in (({"flush": True}, of_a_device, 1), ({}, Rounds, 2)):
            self.bench._loads, self.bench._usual_loads = [], []
            self.ask(flush)
            rounds = kind(None, self.slot, self.bench, ["eager"], None)
            rounds._time_baseline("eager")
            took = Message(messages * 0.001, messages * 0.0004, messages * 0.0005)
            self.assertEqual(self.bench._loads, [took])
            self.assertEqual(self.bench._usual_loads, [took])

    def test_on_the_host_it_does_not_warm_up(self):
        # No message but those whose time is counted.
        self.assertEqual(self.ask({}), [(True,), ("ran", "load", True), ("run", True)])


class Examined(OneModel):
    def examine(self, change=lambda result: result):
        """(why it was wrong, whether float64 was asked), of a candidate that
        leaves the framework's results but for that change."""
        self.bench.refresh(torch.Generator().manual_seed(1), random.Random(1))
        whole, data = self.whole, self.bench._data
        case = whole.expect("given", data)
        for view, made in zip(whole.buffers.output_views, case.expectations):
            view.copy_(made.framework)
        whole.buffers.output_views[0].copy_(change(torch.relu(data.leaves[0] * data.state[0])))
        self.slot.call = lambda wall_ms, steps, **how: (case.form.to_json(), 0.001)
        self.bench._baseline = self.slot
        with mock.patch.object(whole, "run_wide", wraps=whole.run_wide) as wide:
            limits = types.SimpleNamespace(wall_ms=1000)
            _, reason = self.bench.examine(self.slot, limits, random.Random(1))
        return reason, wide.called

    def test_float64_is_asked_once_while_results_are_near(self):
        self.assertEqual(self.examine(), ("", True))
        self.assertEqual(self.examine(), ("", False))
        self.assertEqual(self.examine(lambda y: y * (1 + 2e-7)), ("", False))

    def test_float64_decides_on_what_is_less_near(self):
        self.examine()
        tolerance = self.bench.like.outputs[0].tolerance
        reason, asked = self.examine(lambda y: y + 0.7 * tolerance * y.square().mean().sqrt())
        self.assertTrue(asked)
        self.assertEqual(reason, "")

    def test_float64_decides_where_there_is_no_room_for_the_shorter_way(self):
        self.examine()
        no_room = torch.OutOfMemoryError("others have it")
        with mock.patch.object(self.whole, "expect_near", side_effect=no_room):
            self.assertEqual(self.examine(), ("", True))

    def test_what_is_wrong_later_is_found(self):
        self.examine()
        reason, asked = self.examine(lambda y: y * 1.01)
        self.assertTrue(asked)
        self.assertIn("output0", reason)


class FreshInputs(unittest.TestCase):
    def bench_of(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "problem.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return ModelBench(WholeModel(path, 1), path)

    def changes(self, bench):
        """Which of the inputs are others than those of the base case."""
        fresh = bench._fresh(torch.Generator().manual_seed(1), bench._draws)
        return [not torch.equal(a, b) for a, b in zip(fresh, bench._base.leaves)]

    def test_all_inputs_are_new_where_the_model_takes_them(self):
        self.assertEqual(self.changes(self.bench_of(PROBLEM)), [True])

    def test_what_the_model_takes_not_rolled_is_drawn_again(self):
        self.assertEqual(self.changes(self.bench_of(OFFSETS)), [True, False, True])

    def test_a_positive_definite_matrix_stays_one(self):
        self.assertEqual(self.changes(self.bench_of(POSITIVE)), [True])

    def test_a_model_that_takes_nothing_else_is_not_timed(self):
        only = (
            OFFSETS.replace(", weights", "")
            .replace(" * weights", "")
            .replace(",\n            torch.rand(3, 1)]", "]")
        )
        only = only.replace("torch.randint(0, 10, (7,))", "torch.arange(7)")
        with self.assertRaises(CandidateFailed) as raised:
            self.bench_of(only)
        self.assertIn("takes no inputs but", raised.exception.reason)

    def test_inputs_that_come_in_another_form_later_are_a_reason(self):
        bench = self.bench_of(OFFSETS)
        with (
            mock.patch.object(bench._whole, "drawn", return_value=None),
            self.assertRaises(BaselineLost) as raised,
        ):
            bench.refresh(torch.Generator().manual_seed(1), random.Random(1))
        self.assertIn("another form", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
