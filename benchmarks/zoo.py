"""A zoo of models by configuration, without weights: captured whole or in
pieces, verified or explained, timed against eager and torch.compile.

    PYTHONPATH=python python benchmarks/zoo.py [--only NAME,…] [--budget-s N]
        [--device cuda] [--large] [--batch N] [--fallback inductor] [--replay-mb N]

Prints a table, a line a model; speedups are medians of rounds, with their quartiles. On a
GPU torch.compile is timed by itself and by mode="reduce-overhead", whose CUDA graphs
are to be compared with weft's replays. Models of torchvision, timm and transformers are
there where those packages are installed; --large gives them their own sizes
instead of small ones, --batch so many samples. On a GPU several of these may run
at once: each times with the device to itself."""

import argparse
import contextlib
import os
import random
import statistics
import sys
import time
import traceback

import torch

import zoo_models

from weft.capture.capture import lock_of

ROUNDS = 25
COLUMNS = ("model", "graphs", "breaks", "state", "as eager", "eager ms",
           "torch.compile ms", "reduce-overhead ms", "weft ms",
           "over torch.compile", "over reduce-overhead", "over eager",
           "search s", "replayed", "why not")


def in_turns(functions, inputs):
    """Seconds of each in every round, where they are called one after the other, in
    an order of the round's own: what ran before leaves its traces."""
    times = [[] for _ in functions]
    pairs, draw = list(zip(functions, times)), random.Random(0)
    with torch.no_grad():
        for function in functions:
            for _ in range(3):
                function(*inputs)
        with alone_on(inputs[0].device):
            for _ in range(ROUNDS):
                for function, found in draw.sample(pairs, len(pairs)):
                    _settle(inputs)
                    begin = time.perf_counter()
                    function(*inputs)
                    _settle(inputs)
                    found.append(time.perf_counter() - begin)
    return times


@contextlib.contextmanager
def alone_on(device):
    """No timing of a run, nor another's here, is on that device meanwhile."""
    with contextlib.closing(lock_of(device)) as lock, lock.exclusive():
        yield


def speedup(theirs, ours):
    """The median of the rounds' ratios, and their quartiles."""
    low, middle, high = statistics.quantiles(
        [one / other for one, other in zip(theirs, ours)], n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def _those_that_run(functions, inputs):
    """Not those whose call fails, as a CUDA graph that asks the host does."""
    found = []
    with torch.no_grad():
        for function in functions:
            try:
                function(*inputs)
                found.append(function)
            except Exception:
                traceback.print_exc()
    return found


def _settle(inputs):
    if inputs[0].is_cuda:
        torch.cuda.synchronize()


def row_of(name, make, options):
    """The columns of one model; whatever fails is told in the last."""
    import weft
    import weft.backend

    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs = make()
    model = model.eval().to(options.device)
    inputs = [one.to(options.device) for one in inputs]
    before = len(weft.explain().graphs)
    mine = torch.compile(model, backend=weft.backend.compile, options={
        "budget_s": options.budget_s, "wait": True,
        "fallback": options.fallback, "replay_mb": options.replay_mb})
    begin = time.monotonic()
    with torch.no_grad():
        mine(*inputs)
        seconds = time.monotonic() - begin
        verdict = weft.verify(model, mine, inputs)
    theirs = [torch.compile(model)]
    if options.device != "cpu":
        theirs += _those_that_run(
            [torch.compile(model, mode="reduce-overhead")], inputs)
    eager, *theirs, ours = in_turns([model, *theirs, mine], inputs)
    graphs = [graph for graph in weft.explain().graphs[before:]
              if graph.role == "inference"]
    breaks = weft.explain(model, inputs).breaks
    reasons = [graph.reason for graph in graphs if graph.reason] + breaks
    return (name, len(graphs), len(breaks),
            ", ".join(graph.state for graph in graphs) or "none",
            "yes" if verdict else verdict.reason,
            *[f"{statistics.median(one) * 1e3:.2f}" if one else ""
              for one in (eager, theirs[0], theirs[1:] and theirs[1], ours)],
            speedup(theirs[0], ours),
            speedup(theirs[1], ours) if theirs[1:] else "",
            speedup(eager, ours), f"{seconds:.0f}",
            "; ".join(graph.replay or "no" for graph in graphs)[:120],
            "; ".join(reasons)[:options.reason_chars])


def line(columns):
    return "| " + " | ".join(
        str(one).replace("|", "/").replace("\n", " ") for one in columns) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names, with commas")
    parser.add_argument("--budget-s", type=float, default=120)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--batch", type=int, help="samples; each model's own else")
    parser.add_argument("--fallback", default="eager",
                        choices=("eager", "inductor"))
    parser.add_argument("--replay-mb", type=int, default=1024)
    parser.add_argument("--reason-chars", type=int, default=160)
    options = parser.parse_args()
    models, absent = zoo_models.models(options.large, options.batch)
    wanted = options.only.split(",") if options.only else list(models)
    unknown = [name for name in wanted if name not in models]
    if unknown:
        sys.exit(f"no model {', '.join(unknown)}; there are {', '.join(models)}")
    print(line(COLUMNS))
    print("|" + "---|" * len(COLUMNS), flush=True)
    for name in wanted:
        try:
            columns = row_of(name, models[name], options)
        except Exception as error:
            traceback.print_exc()
            columns = (name, *[""] * (len(COLUMNS) - 2),
                       f"{type(error).__name__}: {error}"[:300])
        print(line(columns), flush=True)
    print(f"\n{os.cpu_count()} cores, {options.device}, torch "
          f"{torch.__version__}, {options.budget_s:g} s for each graph")
    for reason in absent:
        print(reason)


if __name__ == "__main__":
    main()
