"""A CUDA graph that is played on the processor, for tests without a GPU."""

import unittest

from weft.backend.implementations import cuda_graph
from weft.backend.implementations.cuda_graph import Replayed
import torch


class Played:
    """As a Recording: its results lie in the same memory in every replay."""

    def __init__(self, function, arguments, moving, written=frozenset()):
        self._function, self._moving = function, moving
        self._given = [
            one.clone() if i in moving else one.detach() for i, one in enumerate(arguments)
        ]
        self._results = function(
            [one.clone() if i in written else one for i, one in enumerate(self._given)]
        )
        cuda_graph._check_results(self._results, self._given)
        self.nbytes, self.replays = 100, 0

    by_others = 50

    def kept(self):
        return self.nbytes + self.by_others

    @staticmethod
    def is_within_another():
        return False

    def replay(self, moved):
        self.replays += 1
        for i, one in zip(self._moving, moved, strict=True):
            self._given[i].copy_(one)
        for kept, one in zip(self._results, self._function(list(self._given))):
            kept.copy_(one)
        return [one.clone() for one in self._results]


def weighted(arguments):
    weight, x = arguments
    return [x * weight, x.sum(0)]


class PlayedCase(unittest.TestCase):
    """Has a function of a parameter and an argument, whose calls are played."""

    def setUp(self):
        self.weight = torch.rand(3)
        self.calls = 0

    def function(self, arguments):
        self.calls += 1
        return weighted(arguments)

    def made(self, x, constants=(), bytes_max=1000, still=(0,)):
        return Replayed(self.function, [self.weight, x], set(still), constants, bytes_max, Played)

    def assert_computes(self, made, *arguments):
        for got, expected in zip(made(list(arguments)), weighted(list(arguments)), strict=True):
            torch.testing.assert_close(got, expected)
