#!/usr/bin/env python3
"""What a user measures of a composed module, beside what weft says of it.

    python3 benchmarks/outside.py PROBLEM.py RUN [PROBLEM.py RUN ...]

RUN is the run directory. In a fresh process for each, with nothing of weft's
around: Model and ModelNew are called in turns, on the same inputs, without
gradients, in a plain loop with PyTorch's own settings. Prints the median of
each, the ratio, what the run's result.json says of it, and whether they agree
within a fifth. Exit code 1: one does not.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from module_file import module_of

#: Of both sides, in turns.
CALLS_MIN, SECONDS = 30, 5.0
CALLS_MAX = 2000
WARM_CALLS = 5
AGREES = 1.2


def built(module, kind, device):
    import torch

    torch.manual_seed(0)
    given = module.get_init_inputs()
    args, kwargs = (given, {}) if isinstance(given, (list, tuple)) else (
        given.get("args", ()), given.get("kwargs", {}))
    torch.manual_seed(0)
    return getattr(module, kind)(*args, **kwargs).to(device)


def measure(problem, composed):
    """(seconds a call of Model, of ModelNew): medians. In this process."""
    import torch

    old, new = module_of(problem, "old"), module_of(composed, "new")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    models = built(old, "Model", device), built(new, "ModelNew", device)
    inputs = [x.to(device) if isinstance(x, torch.Tensor) else x
              for x in old.get_inputs()]

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
                time.perf_counter() < until and len(taken[0]) < CALLS_MAX):
            for model, seconds in zip(models, taken):
                seconds.append(call(model))
    why = getattr(new, "_weft_passed_on", "")
    if why:
        sys.exit(f"{composed}: none of its kernels ran: {why}")
    return [statistics.median(seconds) for seconds in taken]


def compare(problem, run):
    """One line; whether both agree."""
    told = json.loads((run / "result.json").read_text())
    claimed = (told["timing"]["over_eager"] or {}).get("ratio")
    done = subprocess.run(
        [sys.executable, __file__, "--measure", problem,
         run / "composed" / "model_new.py"],
        stdout=subprocess.PIPE, text=True, check=True)
    eager, ours = json.loads(done.stdout.splitlines()[-1])
    outside = eager / ours
    agrees = claimed is not None and (
        1 / AGREES <= outside / claimed <= AGREES)
    print(f"| {Path(problem).stem} | {eager * 1e6:.0f} | {ours * 1e6:.0f} "
          f"| {outside:.2f} | {claimed or 0:.2f} "
          f"| {'yes' if agrees else 'no'} |", flush=True)
    return agrees


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--measure", action="store_true",
                        help="one pair, in this process: for its own use")
    parser.add_argument("paths", nargs="+", metavar="PROBLEM RUN")
    options = parser.parse_args()
    pairs = list(zip(options.paths[::2], options.paths[1::2], strict=True))
    if options.measure:
        print(json.dumps(measure(*pairs[0])))
        return 0
    print("| problem | Model us | ModelNew us | outside | weft says "
          "| within a fifth |\n|---|---|---|---|---|---|")
    return 0 if all([compare(p, Path(run)) for p, run in pairs]) else 1


if __name__ == "__main__":
    sys.exit(main())
