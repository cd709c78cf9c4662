"""A zoo of models by configuration, without weights: captured whole or in pieces, verified
or explained, timed against eager and torch.compile.

    PYTHONPATH=python python benchmarks/zoo.py [--only NAME,…] [--budget-s N]
        [--device cuda] [--large] [--batch N] [--dtype bfloat16] [--train]
        [--fallback inductor] [--mode reduce-overhead] [--modes default,max-autotune]
        [--tables] [--weft-last]

Prints a table, a line a model; speedups are medians of rounds, with their quartiles. On a
GPU torch.compile is timed in each of --modes, and weft (--mode) is compared with the best.
--train times a step forward and backward; programs whose names begin with "train" are
always steps. --tables prints the regions of each graph: time, roofline, state, gain. Models
of torchvision, timm and transformers need these packages; --large gives them their usual
sizes instead of small ones, --batch the number of samples. On a GPU several of these may
run at once: each times with the device to itself."""

import argparse
import contextlib
import functools
import os
import random
import statistics
import sys
import time
import traceback

import torch

import zoo_models
import zoo_programs

from weft.capture.capture import lock_of

ROUNDS = 25
COLUMNS = (
    "model",
    "graphs",
    "breaks",
    "state",
    "as eager",
    "eager ms",
    "best torch.compile ms",
    "its mode",
    "weft ms",
    "over the best",
    "over eager",
    "regions generated",
    "gain per region",
    "search s",
    "replayed",
    "why not",
)


def in_turns(functions, inputs):
    """Seconds of each in every round, where they are called one after the other, in
    an order of the round's own: what ran before leaves its traces."""
    times = [[] for _ in functions]
    pairs, draw = list(zip(functions, times)), random.Random(0)
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
    low, middle, high = statistics.quantiles([one / other for one, other in zip(theirs, ours)], n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def _those_that_run(functions, inputs):
    """{mode: function} of those whose call does not fail, as a CUDA graph that asks the
    host does."""
    found = {}
    for mode, function in functions.items():
        try:
            for _ in range(2):
                function(*inputs)
            found[mode] = function
        except Exception:
            traceback.print_exc()
    return found


def inference(function):
    """Its calls without gradients."""

    def call(*inputs):
        with torch.no_grad():
            return function(*inputs)

    return call


def step_of(function, model):
    """Its calls with a backward pass; the gradients are dropped."""

    def call(*inputs):
        made = function(*inputs)
        leaf = made[0] if isinstance(made, tuple) else made
        leaf.float().square().mean().backward()
        model.zero_grad(set_to_none=True)

    return call


def gradients_of(function, model, inputs):
    """By name, after one step."""
    model.zero_grad(set_to_none=True)
    made = function(*inputs)
    leaf = made[0] if isinstance(made, tuple) else made
    leaf.float().square().mean().backward()
    found = {
        name: one.grad.float() for name, one in model.named_parameters() if one.grad is not None
    }
    model.zero_grad(set_to_none=True)
    return found


def as_eager(model, mine, inputs, is_training):
    """ "yes", or what differs."""
    import weft

    if not is_training:
        with torch.no_grad():
            verdict = weft.verify(model, mine, inputs)
        return "yes" if verdict else verdict.reason
    expected, got = (gradients_of(one, model, inputs) for one in (model, mine))
    whole = torch.cat([one.flatten() for one in expected.values()])
    error = torch.cat([(got[name] - one).flatten() for name, one in expected.items()])
    return f"gradients' RMS error {float(error.norm() / whole.norm()):.1e}"


def _settle(inputs):
    if inputs[0].is_cuda:
        torch.cuda.synchronize()


def modes_of(options):
    """torch.compile's modes that weft is compared with."""
    if options.device == "cpu":
        return ["default"]
    if options.modes:
        return options.modes.split(",")
    has_graphs = options.mode in ("reduce-overhead", "max-autotune")
    return ["default", "reduce-overhead"] if has_graphs or options.replay_mb else ["default"]


def row_of(name, make, options):
    """(the columns of one model, its graphs' reports)"""
    import weft
    import weft.backend

    torch.manual_seed(0)
    torch._dynamo.reset()
    dtype = getattr(torch, options.dtype)
    is_training = options.train or name.startswith("train")
    model, inputs = make()
    model = model.train(is_training).to(options.device, dtype)
    inputs = [one.to(options.device, dtype if one.is_floating_point() else None) for one in inputs]
    timed = functools.partial(step_of, model=model) if is_training else inference
    before = len(weft.explain().graphs)
    asked = {"budget_s": options.budget_s, "wait": True, "fallback": options.fallback}
    if options.mode != "default":
        asked["mode"] = options.mode
    if options.replay_mb is not None:
        asked["replay_mb"] = options.replay_mb
    modes = modes_of(options)

    def compiled_in_modes():
        return _those_that_run(
            {mode: timed(torch.compile(model, mode=mode)) for mode in modes}, inputs
        )

    theirs = compiled_in_modes() if options.weft_last else {}
    mine = torch.compile(model, backend=weft.backend.compile, options=asked)
    begin = time.monotonic()
    timed(mine)(*inputs)
    seconds = time.monotonic() - begin
    same = as_eager(model, mine, inputs, is_training)
    theirs = theirs or compiled_in_modes()
    eager, ours, *others = in_turns([timed(model), timed(mine), *theirs.values()], inputs)
    best = min(range(len(others)), key=lambda i: statistics.median(others[i]), default=None)
    graphs = weft.explain().graphs[before:]
    breaks = [] if is_training else weft.explain(model, inputs).breaks
    regions = [one for graph in graphs for one in graph.regions]
    generated = [one for one in regions if one.state == "generated"]
    reasons = [graph.reason for graph in graphs if graph.reason] + breaks
    return (
        name,
        len(graphs),
        len(breaks),
        ", ".join(graph.state for graph in graphs) or "none",
        same,
        f"{statistics.median(eager) * 1e3:.3f}",
        "" if best is None else f"{statistics.median(others[best]) * 1e3:.3f}",
        "" if best is None else list(theirs)[best],
        f"{statistics.median(ours) * 1e3:.3f}",
        "" if best is None else speedup(others[best], ours),
        speedup(eager, ours),
        f"{len(generated)} of {len(regions)}",
        "; ".join(f"{one.operators} {one.gain:.3f}" for one in generated)[:300],
        f"{seconds:.0f}",
        "; ".join(graph.replay or "no" for graph in graphs)[:120],
        "; ".join(reasons)[: options.reason_chars],
    ), graphs


def line(columns):
    return (
        "| " + " | ".join(str(one).replace("|", "/").replace("\n", " ") for one in columns) + " |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", help="names, with commas; also any of timm's or torchvision's, as 'timm NAME'"
    )
    parser.add_argument("--budget-s", type=float, default=120)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--batch", type=int, help="samples; each model's own else")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--train", action="store_true", help="steps, not inference")
    parser.add_argument("--fallback", default="auto", choices=("auto", "eager", "inductor"))
    parser.add_argument("--mode", default="default", help="weft's, one of torch.compile's")
    parser.add_argument(
        "--modes",
        help="torch.compile's on a GPU, with commas; else "
        "those that allow as many CUDA graphs as --mode",
    )
    parser.add_argument("--replay-mb", type=int, help="by the mode else")
    parser.add_argument(
        "--weft-last",
        action="store_true",
        help="compile in torch.compile's modes first; weft is compiled first else",
    )
    parser.add_argument("--tables", action="store_true", help="regions of each graph")
    parser.add_argument("--reason-chars", type=int, default=160)
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else []
    models, absent = zoo_models.models(options.large, options.batch, wanted)
    models.update(zoo_programs.programs(options.large))
    wanted = wanted or list(models)
    unknown = [name for name in wanted if name not in models]
    if unknown:
        sys.exit(f"no model {', '.join(unknown)}; there are {', '.join(models)}")
    tables = []
    print(line(COLUMNS))
    print("|" + "---|" * len(COLUMNS), flush=True)
    for name in wanted:
        try:
            columns, graphs = row_of(name, models[name], options)
        except Exception as error:
            traceback.print_exc()
            columns = (name, *[""] * (len(COLUMNS) - 2), f"{type(error).__name__}: {error}"[:300])
            graphs = []
        print(line(columns), flush=True)
        tables += [f"\n{name}\n{graph}" for graph in graphs]
    print(
        f"\n{os.cpu_count()} cores, {options.device}, torch "
        f"{torch.__version__}, {options.budget_s:g} s for each graph"
    )
    for reason in absent:
        print(reason)
    if options.tables:
        print("\n".join(tables))


if __name__ == "__main__":
    main()
