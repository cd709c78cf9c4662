"""What a candidate finds in shared memory while a whole model is timed."""

import os
import random
import tempfile
import unittest

import torch

from weft_worker.device import HOST
from weft_worker.time_model import ModelBench
from weft_worker.verify import ArenaKeeper
from weft_worker.whole_model import WholeModel

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


class WatchingSlot:
    """Notes what it is asked for, and whether the inputs were there then."""

    def __init__(self, bench, whole):
        self._bench, self._whole = bench, whole
        self.asked = []

    def call(self, wall_ms, steps, **how):
        held = self._whole.buffers.input_storages[0]
        is_there = torch.equal(held.reshape(-1), self._bench._kept[0])
        self.asked.append((*steps, is_there))
        return {"ns": 1}, 0.001


class Timing(unittest.TestCase):
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
        self.bench._off_clock = {
            f"{who} {what}": [] for who in ("candidate", "baseline")
            for what in ("loads", "exports")}
        self.slot = WatchingSlot(self.bench, self.whole)

    def ask(self, flush):
        self.bench._flush = flush
        self.bench.refresh(torch.Generator().manual_seed(1), random.Random(1))
        self.bench.call_candidate(self.slot, 1000)
        return self.slot.asked

    def test_a_candidate_warms_up_before_its_inputs_are_there(self):
        self.assertEqual(self.ask({"flush": True}), [
            ("warm", False), ("load", True), ("run", True)])

    def test_on_the_host_it_does_not_warm_up(self):
        self.assertEqual(self.ask({}), [("load", True), ("run", True)])


if __name__ == "__main__":
    unittest.main()
