"""Arguments that lie in the same memory in call after call, and graphs that read them there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

#: Calls in a row that find an argument in the same place before it is read there, and the
#: number of a recording's calls that look for such arguments.
RESTS_AFTER, LOOKS_MAX = 4, 100


class Rests:
    """Finds the arguments that lie in the same place in call after call."""

    def __init__(self, positions: Sequence[int]) -> None:
        self._positions = positions
        self._pointers = [0 for _ in positions]
        self._counts = [0 for _ in positions]
        self._looks = 0

    def look(self, arguments: Sequence[Any]) -> list[int]:
        """Positions of those that lie where they lay in the calls before; for most calls
        none are named."""
        if self._looks >= LOOKS_MAX:
            return []
        self._looks += 1
        pointers = [arguments[i].data_ptr() for i in self._positions]
        self._counts = [
            count + 1 if now == before else 1
            for count, now, before in zip(self._counts, pointers, self._pointers)
        ]
        self._pointers = pointers
        return [i for i, count in zip(self._positions, self._counts) if count >= RESTS_AFTER]


class Resting:
    """A graph for calls whose arguments at some positions lie where they lay when it was
    recorded: it reads these there."""

    def __init__(
        self, recording: Any, moving: list[int], positions: list[int], arguments: Sequence[Any]
    ) -> None:
        self.recording = recording
        self.moving = moving
        #: Calls in a row that it did not fit.
        self.misses = 0
        #: That it fitted.
        self.calls = 0
        self._positions = positions
        self._pointers = pointers_of(arguments, positions)

    def fits(self, arguments: Sequence[Any]) -> bool:
        is_there = lie_at(arguments, self._positions, self._pointers)
        self.misses = 0 if is_there else self.misses + 1
        self.calls += is_there
        return is_there


def pointers_of(arguments: Sequence[Any], positions: Sequence[int]) -> list[int]:
    """Addresses of the arguments at these positions, and 0 at the others."""
    found = [0] * len(arguments)
    for i in positions:
        found[i] = arguments[i].data_ptr()
    return found


#: In C++, where PyTorch has CUDA: a loop over hundreds of parameters takes longer than the
#: launch of a graph.
_POINTERS_EQUAL = getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", None)


def lie_at(arguments: Sequence[Any], positions: list[int], pointers: list[int]) -> bool:
    """Whether the arguments at these positions lie where they lay, by pointers_of()."""
    if _POINTERS_EQUAL is not None:
        return bool(_POINTERS_EQUAL(list(arguments), pointers, positions))
    return all(arguments[i].data_ptr() == pointers[i] for i in positions)
