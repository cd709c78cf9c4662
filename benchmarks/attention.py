#!/usr/bin/env python3
"""Times a model that writes attention out, its composed module and torch.compile.

    python3 benchmarks/attention.py PROBLEM.py RUN [--one-thread]

RUN is the run directory. --one-thread counts the processor's time instead of the clock's,
which a busy machine lengthens. Model, ModelNew and torch.compile of Model are called in
turns, in a random order each round, on the same inputs. As in weft's timing, the process
has a heap that keeps what is freed. Prints the median of each, and of eager's and
torch.compile's time over ModelNew's in the same round, with the tenth and the ninetieth
percentile.
"""

import os
import random
import statistics
import sys
import time
from pathlib import Path

from module_file import module_of
from independent_timing import KEPT, built

ROUNDS, WARM_ROUNDS = 60, 5


def timed(models, inputs, clock):
    """{name: seconds of each round}."""
    import torch

    taken = {name: [] for name in models}
    names = list(models)
    with torch.no_grad():
        for turn in range(-WARM_ROUNDS, ROUNDS):
            random.shuffle(names)
            for name in names:
                begin = clock()
                models[name](*inputs)
                if turn >= 0:
                    taken[name].append(clock() - begin)
    return taken


def of_rounds(ratios):
    tenths = statistics.quantiles(ratios, n=10)
    return f"{statistics.median(ratios):.2f} ({tenths[0]:.2f}–{tenths[-1]:.2f})"


def main(problem, run, *flags):
    import torch

    clock = time.perf_counter
    if flags == ("--one-thread",):
        torch.set_num_threads(1)
        clock = time.process_time
    old = module_of(problem, "old")
    new = module_of(Path(run) / "composed" / "model_new.py", "new")
    models = {
        "eager": built(old, "Model", "cpu"),
        "weft": built(new, "ModelNew", "cpu"),
        "torch.compile": torch.compile(built(old, "Model", "cpu")),
    }
    inputs = old.get_inputs()
    with torch.no_grad():
        results = [model(*inputs) for model in models.values()]
    far = max((result - results[0]).abs().max().item() for result in results)
    taken = timed(models, inputs, clock)
    why = getattr(new, "_weft_passed_on", "")
    if why:
        sys.exit(f"none of its kernels ran: {why}")
    millis = [f"{statistics.median(taken[name]) * 1e3:.2f}" for name in models]
    ratios = [
        of_rounds([a / b for a, b in zip(taken[name], taken["weft"])])
        for name in ("eager", "torch.compile")
    ]
    print(f"| {Path(problem).stem} | {' | '.join(millis + ratios)} | {far:.1e} |")


if __name__ == "__main__":
    if os.environ.keys() < KEPT.keys() or any(
        os.environ.get(name) != value for name, value in KEPT.items()
    ):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | KEPT)
    main(*sys.argv[1:])
