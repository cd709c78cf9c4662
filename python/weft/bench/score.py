"""Numbers over many problems, from the rows that results.py makes.

A row counts with a speedup only when it is verified: that of a wrong kernel
is none.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

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


def run_ones(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those that want a network: they are no failures."""
    return [row for row in rows if row["state"] != NO_NETWORK]


def ratios(rows: Iterable[dict[str, Any]], name: str) -> list[float]:
    """Speedups of the verified ones that have one."""
    return [row[name] for row in rows if row["verified"] and row[name]]


def by_near_rule(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows as KernelBench's own evaluator would have them; those only
    that it was asked of."""
    return [
        {
            **row,
            "verified": bool(row["kernelbench_module"]),
            **{
                name: row["kernelbench_" + name]
                for name in (
                    "over_eager",
                    "over_eager_low",
                    "over_eager_high",
                    "over_compile",
                    "over_compile_low",
                    "over_compile_high",
                )
            },
        }
        for row in rows
        if row["kernelbench"]
    ]


def fast_p(rows: Sequence[dict[str, Any]], name: str, threshold: float) -> float | None:
    """KernelBench's: the share of all problems that are verified and more
    than `threshold` times as fast. 0: of those that are verified, timed or
    not. None: there are no problems, or none was timed."""
    if not rows:
        return None
    if threshold == 0:
        return sum(1 for row in rows if row["verified"]) / len(rows)
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


def is_eager(row: dict[str, Any]) -> bool:
    """Whether ModelNew is the framework's own code, for no kernel won."""
    return row["kernels_ours"] == 0


def beyond_spread(rows: Iterable[dict[str, Any]], name: str) -> tuple[int, int, int]:
    """(faster, slower, no difference): whether the interval holds 1. Of the
    same code there is no difference, whatever two processes measured."""
    counted = [row for row in rows if row["verified"] and row[name]]
    other = [row for row in counted if name != "over_eager" or not is_eager(row)]
    faster = sum(1 for row in other if row[name + "_low"] > 1)
    slower = sum(1 for row in other if row[name + "_high"] < 1)
    return faster, slower, len(counted) - faster - slower


def slower_than_eager(row: dict[str, Any]) -> bool:
    """Whether kernels made the module slower than eager, beyond the spread."""
    return bool(row["over_eager"]) and not is_eager(row) and (row["over_eager_high"] < 1)


def delivered(row: dict[str, Any]) -> Speedups | None:
    """The module with kernels of any seed generator. A module that is wrong, was not
    timed or is slower than eager is not a result."""
    if not row["verified"] or not row["over_eager"] or is_eager(row) or slower_than_eager(row):
        return None
    return Speedups(WEFT, row["over_eager"], row["over_compile"])


def generated(row: dict[str, Any]) -> Speedups | None:
    """The same by KernelBench's rules: without Inductor's code."""
    parts = row["result"]["subgraphs"] if row["result"] else []
    if any(part["ours"] and part.get("origin") == INDUCTOR for part in parts):
        return None
    return delivered(row)


def best(row: dict[str, Any]) -> Speedups | None:
    """The fastest of the module, torch.compile and eager, as they were timed beside
    each other. None: nothing was timed."""
    if not row["eager_us"]:
        return None
    compiled = None
    if row["over_eager"] and row["over_compile"]:
        compiled = row["over_eager"] / row["over_compile"]
    found = [Speedups(EAGER, 1.0, compiled and 1 / compiled)]
    if compiled:
        found.append(Speedups(COMPILE, compiled, 1.0))
    if module := delivered(row):
        found.insert(0, module)  # where several are as fast
    return max(found, key=lambda one: one.over_eager)
