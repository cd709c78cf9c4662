#!/usr/bin/env python3
"""Compares a user's own timing of a composed module with weft's.

    python3 benchmarks/independent_timing.py PROBLEM.py RUN [PROBLEM.py RUN ...]

RUN is the run directory. In fresh processes, with nothing of weft's around: Model and
ModelNew are called in turns, on the same inputs, without gradients, in a plain loop with
PyTorch's own settings. Prints the median of each, the ratio, what the run's result.json
says of it, and whether they agree within a fifth. Exit code 1: one does not.

On a processor the heap matters. glibc gives freed memory back to the kernel above a limit
that it moves. Then each page of a result is made anew, which takes milliseconds a call.
weft times both sides with a heap that keeps what is freed (KEPT; PyTorch's allocator for
GPUs does so, too). This script's result is compared with a loop that has such a heap. The
loop "as it comes" has glibc's own rules. Processes of both kinds take turns, and the median
of each is printed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from module_file import module_of

#: For both sides, in turns, in each process.
CALLS_MIN, SECONDS = 20, 2.0
CALLS_MAX = 2000
PROCESSES = 3
WARM_CALLS = 5
AGREES = 1.2
#: As python/weft/candidate/harness.py has it.
KEPT = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}


def built(module, kind, device):
    import torch

    torch.manual_seed(0)
    given = module.get_init_inputs()
    args, kwargs = (
        (given, {})
        if isinstance(given, (list, tuple))
        else (given.get("args", ()), given.get("kwargs", {}))
    )
    torch.manual_seed(0)
    return getattr(module, kind)(*args, **kwargs).to(device)


def measure(problem, composed):
    """(seconds a call of Model, of ModelNew): medians. In this process."""
    import torch

    old, new = module_of(problem, "old"), module_of(composed, "new")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    models = built(old, "Model", device), built(new, "ModelNew", device)
    inputs = [x.to(device) if isinstance(x, torch.Tensor) else x for x in old.get_inputs()]

    def call(model):
        begin = time.perf_counter()
        model(*inputs)
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    taken = [], []
    with torch.no_grad():
        for _ in range(WARM_CALLS):
            for model in models:
                call(model)
        until = time.perf_counter() + SECONDS
        while len(taken[0]) < CALLS_MIN or (
            time.perf_counter() < until and len(taken[0]) < CALLS_MAX
        ):
            for model, seconds in zip(models, taken):
                seconds.append(call(model))
    why = getattr(new, "_weft_passed_on", "")
    if why:
        sys.exit(f"{composed}: none of its kernels ran: {why}")
    return [statistics.median(seconds) for seconds in taken]


def ratios(problem, composed, heaps):
    """For each heap the median over its processes of (seconds of Model, of
    ModelNew, the ratio); they take turns, so that whatever else runs here
    disturbs all of them."""
    found = [[] for _ in heaps]
    for _ in range(PROCESSES):
        for heap, measured in zip(heaps, found):
            done = subprocess.run(
                [sys.executable, __file__, "--measure", problem, composed],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                env=os.environ | heap,
            )
            eager, ours = json.loads(done.stdout.splitlines()[-1])
            measured.append((eager, ours, eager / ours))
    return [sorted(one, key=lambda m: m[2])[PROCESSES // 2] for one in found]


def compare(problem, run):
    """One line; whether both agree."""
    told = json.loads((run / "result.json").read_text())
    claimed = (told["timing"]["over_eager"] or {}).get("ratio")
    own, kept = ratios(problem, run / "composed" / "model_new.py", [{}, KEPT])
    eager, ours, outside = kept
    agrees = claimed is not None and (1 / AGREES <= outside / claimed <= AGREES)
    print(
        f"| {Path(problem).stem} | {eager * 1e3:.2f} | {ours * 1e3:.2f} "
        f"| {claimed or 0:.2f} | {outside:.2f} "
        f"| {'yes' if agrees else 'no'} | {own[2]:.2f} |",
        flush=True,
    )
    return agrees


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--measure", action="store_true", help="one pair, in this process: for its own use"
    )
    parser.add_argument("paths", nargs="+", metavar="PROBLEM RUN")
    options = parser.parse_args()
    pairs = list(zip(options.paths[::2], options.paths[1::2], strict=True))
    if options.measure:
        print(json.dumps(measure(*pairs[0])))
        return 0
    print(
        "| problem | Model ms | ModelNew ms | weft says | outside "
        "| within a fifth | as it comes |\n|---|---|---|---|---|---|---|"
    )
    return 0 if all([compare(p, Path(run)) for p, run in pairs]) else 1


if __name__ == "__main__":
    sys.exit(main())
