"""Finds the fastest implementation of a graph in the program that calls it.

The search timed its kernels in another process. Only this process knows what the program's
call costs in addition, and whether a CUDA graph (cuda_graph.py) is worth its copies. It also
times another compiler's code if the search had no time for that.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
import typing
from collections.abc import Sequence
from typing import Any

import torch

#: Rounds that are compared, after one that warms up; no fewer than ROUNDS_MIN, and
#: more than ROUNDS while they take no more than SHARE of the time.
ROUNDS_MIN, ROUNDS, ROUNDS_MAX, SHARE = 3, 5, 25, 0.1
#: So much slower in the middle of all rounds, and slower in all but one in so
#: many, which a busy machine may have spoilt.
SLOWER, CHANCE = 1.01, 5


@dataclasses.dataclass
class Side:
    """A function of a list of tensors, and its replay where there is one."""

    plain: object
    replayed: object = None


class Choice(typing.NamedTuple):
    """Who computes from now on."""

    function: object
    #: How many times as long the kernels take as the framework, where they are given up
    #: since they are not faster beyond noise.
    factor: float = 0.0
    #: {who was compared: seconds in each round}
    times: typing.Mapping[Any, list[float]] = {}


def select_fastest(
    framework: Any, kernels: Any, arguments: Sequence[Any], seconds: float, record: Any = None
) -> Choice:
    """The Choice of two functions.

    Both are functions of lists of arguments, and are called a few times in turn;
    kernels may be None. `record`, if given, gives the replay of a function, or
    None. Of one's two forms the replay is taken where it is faster, of the two the
    kernels: by SLOWER in the middle of the rounds, and in all of them but one of
    five. Kernels that gain nothing only cost memory and guards. No round begins that
    would end after `seconds` if it took as long as the
    last (0: there is none): where there are too few, replays are left out, or the
    search's word stands."""
    until = time.monotonic() + seconds
    theirs, ours = Side(framework), Side(kernels)
    if kernels is None and record is None:
        return Choice(framework)
    plain = [framework, kernels] if kernels else [framework]
    times = _times(plain, arguments, until)
    if times is None:
        return Choice(kernels or framework)
    if record is not None and time.monotonic() < until:
        replays = (
            Side(framework, record(framework)),
            Side(kernels, record(kernels) if kernels else None),
        )
        sides = [one for side in replays for one in (side.plain, side.replayed) if one is not None]
        found = _times(sides, arguments, until)
        if found is not None:
            times, (theirs, ours) = found, replays
    best_theirs, best_ours = (_faster_form(side, times) for side in (theirs, ours))
    if best_ours is None:
        return Choice(best_theirs, times=times)
    if _slowdown(best_ours, best_theirs, times):
        return Choice(best_ours, times=times)
    return Choice(best_theirs, statistics.median(_ratios(best_theirs, best_ours, times)), times)


def _faster_form(side: Any, times: Any) -> Any:
    if side.replayed is not None and _slowdown(side.replayed, side.plain, times):
        return side.replayed
    return side.plain


def _slowdown(one: Any, other: Any, times: Any) -> Any:
    """How many times as long the other takes, if it is slower; else 0."""
    ratios = sorted(_ratios(one, other, times))
    middle, low = statistics.median(ratios), ratios[len(ratios) // CHANCE]
    return middle if low > 1 and middle > SLOWER else 0.0


def _ratios(one: Any, other: Any, times: Any) -> list[float]:
    """How many times as long the other takes, in each round."""
    return [slow / max(fast, 1e-9) for fast, slow in zip(times[one], times[other])]


def _times(sides: Any, arguments: Any, until: Any) -> Any:
    """{side: seconds in each round}; None where there was time for too few."""
    devices = {
        argument.device
        for argument in arguments
        if isinstance(argument, torch.Tensor) and argument.device.type == "cuda"
    }
    times: dict[Any, list[float]] = {side: [] for side in sides}
    last = 0.0
    enough = time.monotonic() + SHARE * (until - time.monotonic())
    for number in range(ROUNDS_MAX + 1):
        begin = time.monotonic()
        if begin + last >= until:
            return times if number > ROUNDS_MIN else None
        if number > ROUNDS and begin + last >= enough:
            break
        # Who comes before whom changes from round to round, and in pairs of them who
        # comes first.
        first = number // 2 % len(sides)
        order = sides[first:] + sides[:first]
        for side in order[::-1] if number % 2 else order:
            taken = _seconds(side, arguments, devices)
            if number:
                times[side].append(taken)
        last = time.monotonic() - begin
    return times


def _seconds(function: Any, arguments: Sequence[Any], devices: Any) -> Any:
    for device in devices:
        torch.cuda.synchronize(device)
    begin = time.perf_counter()
    function(list(arguments))
    for device in devices:
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin
