"""Numbers over many problems, from the rows that results.py makes.

A row counts with a speedup only when it is verified: that of a wrong kernel
is none.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence

from weft.bench.bench_row import Row
from weft.bench.records import NO_NETWORK

#: What the module that KernelBench's own rule judges is: weft's, or the one that
#: was composed beside it.
OWN_MODULE, NEAR_MODULE = "own", "other"
THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
#: The seed generator whose code is Inductor's.
INDUCTOR = "inductor"
#: What may be the fastest implementation of a problem.
WEFT, COMPILE, EAGER = "weft", "torch.compile", "eager"


@dataclasses.dataclass(frozen=True)
class Speedups:
    """One implementation of a problem, over both baselines of its run."""

    by: str  #: WEFT, COMPILE or EAGER
    over_eager: float
    over_compile: float | None  #: None: torch.compile was not timed


def run_ones(rows: Iterable[Row]) -> list[Row]:
    """Without those that want a network: they are no failures."""
    return [row for row in rows if row.state != NO_NETWORK]


def ratios(rows: Iterable[Row], name: str) -> list[float]:
    """Speedups of the verified ones that have one."""
    return [getattr(row, name) for row in rows if row.verified and getattr(row, name)]


def by_near_rule(rows: Iterable[Row]) -> list[Row]:
    """The same rows as KernelBench's own evaluator would have them; those only
    that it was asked of."""
    names = [
        base + bound for base in ("over_eager", "over_compile") for bound in ("", "_low", "_high")
    ]
    return [
        dataclasses.replace(
            row,
            verified=bool(row.kernelbench_module),
            **{name: getattr(row, "kernelbench_" + name) for name in names},
        )
        for row in rows
        if row.kernelbench
    ]


def fast_p(rows: Sequence[Row], name: str, threshold: float) -> float | None:
    """KernelBench's: the share of all problems that are verified and more
    than `threshold` times as fast. 0: of those that are verified, timed or
    not. None: there are no problems, or none was timed."""
    if not rows:
        return None
    if threshold == 0:
        return sum(1 for row in rows if row.verified) / len(rows)
    fast = ratios(rows, name)
    if not fast:
        return None
    return sum(1 for ratio in fast if ratio > threshold) / len(rows)


def geometric_mean(values: Sequence[float]) -> float | None:
    """None of no values."""
    if not values:
        return None
    return math.exp(sum(map(math.log, values)) / len(values))


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def is_eager(row: Row) -> bool:
    """Whether ModelNew is the framework's own code, for no kernel won."""
    return row.kernels_ours == 0


def beyond_spread(rows: Iterable[Row], name: str) -> tuple[int, int, int]:
    """(faster, slower, no difference): whether the interval holds 1. Of the
    same code there is no difference, whatever two processes measured."""
    counted = [row for row in rows if row.verified and getattr(row, name)]
    other = [row for row in counted if name != "over_eager" or not is_eager(row)]
    faster = sum(1 for row in other if getattr(row, name + "_low") > 1)
    slower = sum(1 for row in other if getattr(row, name + "_high") < 1)
    return faster, slower, len(counted) - faster - slower


def slower_than_eager(row: Row) -> bool:
    """Whether kernels made the module slower than eager, beyond the spread."""
    high = row.over_eager_high
    return high is not None and not is_eager(row) and high < 1


def delivered(row: Row) -> Speedups | None:
    """The module with kernels of any seed generator. A module that is wrong, was not
    timed or is slower than eager is not a result."""
    if not row.verified or not row.over_eager or is_eager(row) or slower_than_eager(row):
        return None
    return Speedups(WEFT, row.over_eager, row.over_compile)


def generated(row: Row) -> Speedups | None:
    """The same by KernelBench's rules: without Inductor's code."""
    parts = row.result["subgraphs"] if row.result else []
    if any(part["ours"] and part.get("origin") == INDUCTOR for part in parts):
        return None
    return delivered(row)


def best(row: Row) -> Speedups | None:
    """The fastest of the module, torch.compile and eager, as they were timed beside
    each other. None: nothing was timed."""
    if not row.eager_us:
        return None
    compiled = None
    if row.over_eager and row.over_compile:
        compiled = row.over_eager / row.over_compile
    found = [Speedups(EAGER, 1.0, compiled and 1 / compiled)]
    if compiled:
        found.append(Speedups(COMPILE, compiled, 1.0))
    if module := delivered(row):
        found.insert(0, module)  # where several are as fast
    return max(found, key=lambda one: one.over_eager)
