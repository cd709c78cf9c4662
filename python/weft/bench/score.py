"""Numbers over many problems, from the rows that results.py makes.

A row counts with a speedup only when it is verified: that of a wrong kernel
is none.
"""

import math
import statistics

from weft.bench.records import NO_NETWORK

#: What the module that KernelBench's own rule judges is: weft's, or the one that
#: was composed beside it.
OWN_MODULE, NEAR_MODULE = "own", "near"
THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)


def run_ones(rows):
    """Without those that want a network: they are no failures."""
    return [row for row in rows if row["state"] != NO_NETWORK]


def ratios(rows, name):
    """Speedups of the verified ones that have one."""
    return [row[name] for row in rows if row["verified"] and row[name]]


def by_near_rule(rows):
    """The same rows as KernelBench's own evaluator would have them; those only
    that it was asked of."""
    return [{**made, "verified": bool(made["near_module"]),
             **{name: made["near_" + name] for name in (
                 "over_eager", "over_eager_low", "over_eager_high",
                 "over_compile", "over_compile_low", "over_compile_high")}}
            for made in rows if made["near_eager"]]


def fast_p(rows, name, threshold):
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


def geometric_mean(values):
    """None of no values."""
    if not values:
        return None
    return math.exp(sum(map(math.log, values)) / len(values))


def median(values):
    return statistics.median(values) if values else None


def is_eager(row):
    """Whether ModelNew is the framework's own code, for no kernel won."""
    return row["kernels_ours"] == 0


def beyond_spread(rows, name):
    """(faster, slower, no difference): whether the interval holds 1. Of the
    same code there is no difference, whatever two processes measured."""
    counted = [row for row in rows if row["verified"] and row[name]]
    other = [row for row in counted
             if name != "over_eager" or not is_eager(row)]
    faster = sum(1 for row in other if row[name + "_low"] > 1)
    slower = sum(1 for row in other if row[name + "_high"] < 1)
    return faster, slower, len(counted) - faster - slower
