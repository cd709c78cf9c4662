"""Whole calls of a program, timed in alternating rounds: with and without inserted
kernels, launched or as a CUDA graph."""

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from weft.backend.implementations import cuda_graph
from weft.backend.implementations.cuda_graph import copied
from weft.backend.implementations.incumbent import Compiled, Request
from weft.backend.options import log, told

#: Rounds beyond these are not needed; fewer than ROUNDS_MIN say nothing.
ROUNDS_MIN, ROUNDS_MAX = 5, 100
#: A function is faster beyond noise if two things hold. The median of the rounds' ratios is
#: above FASTER. The share of rounds with a ratio above 1 is DEVIATIONS standard deviations
#: above a half, the share by chance. With few rounds, all but one must be faster.
FASTER, DEVIATIONS = 1.005, 2
WARM_UPS = 2
#: Least seconds of a round of replays of a CUDA graph, and most replays in it. The time of one
#: replay of 0.9 ms varied by 1 to 2 % (H200, 2026-11-30).
REPLAYS_S, REPLAYS_MAX = 5e-3, 32


class Arguments:
    """A call's arguments, of which each timed call gets copies where it may write."""

    def __init__(self, request: Request, given: Sequence[Any], are_copies: bool = False) -> None:
        """`are_copies`: calls may write to the arguments themselves."""
        self._given = list(given)
        self._written = frozenset[int]() if are_copies else request.written_inputs()
        self.static = request.static_inputs if request.role != "backward" else frozenset[int]()

    def fresh(self) -> list[Any]:
        """A list that a call may empty, with what it may write to copied."""
        return [
            copied(one) if i in self._written and isinstance(one, torch.Tensor) else one
            for i, one in enumerate(self._given)
        ]

    def moved(self) -> list[Any]:
        """The same, with copies of all that moves from call to call."""
        return [
            one if i in self.static or not isinstance(one, torch.Tensor) else copied(one)
            for i, one in enumerate(self._given)
        ]

    def device(self) -> torch.device:
        """On which the program computes."""
        found = [one.device for one in self._given if isinstance(one, torch.Tensor)]
        return next(
            (one for one in found if one.type == "cuda"), found[0] if found else torch.device("cpu")
        )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Seconds of each function in each round."""

    seconds: tuple[tuple[float, ...], ...]

    def median_s(self, which: int) -> float:
        return statistics.median(self.seconds[which])

    def ratio(self, slow: int, fast: int) -> float:
        """How many times as long the first takes, by the median of the rounds."""
        return statistics.median(self._ratios(slow, fast))

    def is_faster(self, fast: int, slow: int) -> bool:
        """Whether it is faster beyond noise."""
        ratios = self._ratios(slow, fast)
        if len(ratios) < ROUNDS_MIN:
            return False
        share = sum(ratio > 1 for ratio in ratios) / len(ratios)
        wanted = min(1 - 1 / len(ratios), 0.5 + DEVIATIONS * 0.5 / math.sqrt(len(ratios)))
        return statistics.median(ratios) > FASTER and share >= wanted

    def _ratios(self, slow: int, fast: int) -> list[float]:
        return [a / max(b, 1e-12) for a, b in zip(self.seconds[slow], self.seconds[fast])]


def compared(
    functions: Sequence[Compiled], arguments: Arguments, seconds: float, cuda_graphs: bool
) -> Comparison:
    """Times the functions for at most about `seconds`; raises what a call does."""
    device = arguments.device()
    calls: list[Callable[[], object]]
    if cuda_graphs and device.type == "cuda":
        try:
            calls = [recorded(function, arguments, device) for function in functions]
            return timed_replays(calls, seconds, lambda: torch.cuda.synchronize(device))
        except Exception as error:  # no memory for copies, say
            log.info("calls are timed launched, not as CUDA graphs: %s", told(error))
    settle = (lambda: torch.cuda.synchronize(device)) if device.type == "cuda" else (lambda: None)
    return timed(
        [_launched(function, arguments, settle) for function in functions], seconds, lambda: None
    )


def _launched(
    function: Compiled, arguments: Arguments, settle: Callable[[], object]
) -> Callable[[], float]:
    """A call that says what it took, copies of its arguments not counted."""

    def call() -> float:
        given = arguments.fresh()
        settle()
        begin = time.perf_counter()
        made = function(given)
        settle()
        taken = time.perf_counter() - begin
        del made
        return taken

    return call


def timed_replays(
    calls: Sequence[Callable[[], object]], seconds: float, settle: Callable[[], object]
) -> Comparison:
    """As timed(), of several calls in a row; gives the seconds of one."""
    for _ in range(WARM_UPS):
        settle()
        begin = time.perf_counter()
        calls[0]()
        settle()
        taken = time.perf_counter() - begin
    count = max(1, min(REPLAYS_MAX, math.ceil(REPLAYS_S / max(taken, 1e-9))))

    def repeated(call: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(count):
                call()

        return run

    found = timed([repeated(call) for call in calls], seconds, settle)
    return Comparison(tuple(tuple(one / count for one in times) for times in found.seconds))


def timed(
    calls: Sequence[Callable[[], object]], seconds: float, settle: Callable[[], object]
) -> Comparison:
    """Rounds of all calls in turn, in an order that changes from round to round. A
    call may give the seconds that count; else the clock decides."""
    until = time.monotonic() + seconds
    for call in calls:
        for _ in range(WARM_UPS):
            call()
    found: list[list[float]] = [[] for _ in calls]
    for number in range(ROUNDS_MAX):
        if number >= ROUNDS_MIN and time.monotonic() >= until:
            break
        order = list(range(len(calls)))
        first = number // 2 % len(calls)
        order = order[first:] + order[:first]
        for which in _alternating(order, number):
            settle()
            begin = time.perf_counter()
            told = calls[which]()
            settle()
            taken = time.perf_counter() - begin
            found[which].append(told if isinstance(told, float) else taken)
    return Comparison(tuple(map(tuple, found)))


def _alternating(order: list[int], number: int) -> Iterable[int]:
    return order[::-1] if number % 2 else order


def recorded(
    function: Compiled, arguments: Arguments, device: torch.device
) -> Callable[[], object]:
    """A replay of the function's calls, on copies of what moves."""
    index = device.index if device.index is not None else torch.cuda.current_device()
    with torch.cuda.device(index), torch.no_grad():
        place = cuda_graph._place_of(index)
        given = arguments.moved()
        torch.cuda.synchronize(device)
        for _ in range(WARM_UPS):
            function(arguments.moved())
        torch.cuda.synchronize(device)
        graph, made, _ = place.captured(lambda: function(list(given)))

    def call(_held: object = (given, made)) -> None:
        with place.turn():
            graph.replay()

    return call
