#!/usr/bin/env python3
"""Times the guards of a call: those of weft.optimize, of the torch.compile backend, and
Dynamo's alone.

    python benchmarks/guards.py [--layers 2,20,100] [--incumbent [--device cuda]]

Prints microseconds of one call on the processor: the median of batches in turns. The graphs
behind the guards compute nothing. The search is played (tests/python/fake_weft.py).

--incumbent compares torch.compile with the backend when no kernel is faster: both call
Inductor's code. torch.compile comes twice, compiled before the backend and after it. On
the processor the time is this thread's. With --device cuda the code is replayed as CUDA
graphs (mode "reduce-overhead"), and two lines for each say when a call has returned
("host"), and when the device is done.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "python"), os.path.join(ROOT, "python")]

import torch  # noqa: E402

from weft.backend.graphs import graph_arguments
from weft.backend.implementations import timing_rounds  # noqa: E402

COMPUTES = graph_arguments._WeftGraphCall.__call__
BATCHES = 61
CALLS = 200


def chain(layers):
    """So many layers, each with two parameters."""
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.LayerNorm(8) for _ in range(layers))).eval()


def parties_of(layers, x):
    """Each a function of x that gives x, once its guards have passed."""
    import weft.backend

    torch._dynamo.reset()  # of other sizes
    graph_arguments._WeftGraphCall.__call__ = COMPUTES  # the search looks at results
    optimized, report = weft.optimize(chain(layers), [x], budget_s=30)
    if not report.ready:
        raise SystemExit(f"guards: no kernels were made: {report}")
    ours = torch.compile(
        chain(layers),
        fullgraph=True,
        backend=weft.backend.compile,
        options={"wait": True, "budget_s": 30},
    )
    ours(x)
    graph_arguments._WeftGraphCall.__call__ = lambda self, given: [x]
    dynamo = torch.compile(
        chain(layers), fullgraph=True, backend=lambda graph, inputs: lambda *given: (x,)
    )
    parties = {"weft.optimize": optimized, "Dynamo": dynamo, "backend weft": ours}
    for name, call in parties.items():
        if call(x) is not x:
            raise SystemExit(f"guards: {name} did not take the graph")
    return parties


def incumbents_of(layers, x):
    """Inductor's code: by torch.compile, and by the backend after a search without kernels.
    Each compiles its own copy of the model."""
    import weft.backend
    from weft.backend.searches import whole_program

    mode = "reduce-overhead" if x.is_cuda else None
    ours = torch.compile(
        chain(layers).to(x.device),
        backend=weft.backend.compile,
        options={"wait": True, "budget_s": 30, "fallback": "inductor", "mode": mode},
    )
    parties = {
        "Inductor": torch.compile(chain(layers).to(x.device), mode=mode),
        "backend weft": ours,
        "Inductor again": torch.compile(chain(layers).to(x.device), mode=mode),
    }
    torch._dynamo.reset()
    for call in parties.values():
        for _ in range(3):
            call(x)
    program = whole_program.all_programs()[-1]
    if program.state != "pytorch":
        raise SystemExit(f"guards: the backend has kernels: {program.summary}")
    return parties


def times_of(parties, x, clock):
    """{name: microseconds of one call in each batch}, the batches in turns."""
    times = {name: [] for name in parties}
    for _ in range(BATCHES):
        for name, call in parties.items():
            start = clock()
            for _ in range(CALLS):
                call(x)
            times[name].append((clock() - start) / CALLS * 1e6)
    return times


def device_times_of(parties, x):
    """{name and end: microseconds of each call}, the calls in turns; each begins with an
    idle device."""
    times = {f"{name}, {end}": [] for name in parties for end in ("host", "done")}
    for _ in range(BATCHES * CALLS // 10):
        for name, call in parties.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            call(x)
            returned = time.perf_counter()
            torch.cuda.synchronize()
            times[f"{name}, host"].append((returned - start) * 1e6)
            times[f"{name}, done"].append((time.perf_counter() - start) * 1e6)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--layers", default="2,20,100")
    parser.add_argument("--incumbent", action="store_true", help="Inductor's code on both sides")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="--incumbent's")
    options = parser.parse_args()
    torch.set_num_threads(1)
    # Played kernels are not faster, and shall be taken all the same.
    timing_rounds.select_fastest = lambda fallback, kernels, *_: timing_rounds.Choice(
        kernels or fallback
    )
    print(f"{'parameters':>10} {'party':20} {'us a call':>10} {'least':>10}")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        os.environ.update(
            FAKE_WEFT="nothing" if options.incumbent else "right",
            FAKE_WEFT_RUNS=os.path.join(folder, "asked"),
            WEFT_CACHE_DIR=folder,
            WEFT_BIN=os.path.join(ROOT, "tests", "python", "fake_weft.py"),
        )
        for layers in map(int, options.layers.split(",")):
            x = torch.randn(2, 8)
            if not options.incumbent:
                times = times_of(parties_of(layers, x), x, time.perf_counter)
            elif options.device == "cpu":
                times = times_of(incumbents_of(layers, x), x, time.thread_time)
            else:
                x = x.to(options.device)
                times = device_times_of(incumbents_of(layers, x), x)
            for name, batches in times.items():
                print(
                    f"{2 * layers:10} {name:20} {statistics.median(batches):10.1f} "
                    f"{min(batches):10.1f}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
