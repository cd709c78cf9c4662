"""Measures what a search in the background costs the program that goes on.

    PYTHONPATH=python python benchmarks/search_interference.py [--device cuda] [--budget-s N]
        [--fallback inductor] [--idle-ms N]

A small transformer's block is called again and again: by the fallback alone, while weft
searches for its kernels, and afterwards. Prints the number of calls, and their median, 99th
percentile and maximum in ms. Then come what weft.explain() says, and which settings and
random states of the process changed. --idle-ms: the program sleeps for this time after each
call.
"""

import argparse
import os
import statistics
import sys
import time

import torch
from torch import nn

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))

import user_globals  # noqa: E402


class Block(nn.Module):
    def __init__(self, width=256, heads=4):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.mixed(self.first(x)).chunk(3, -1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.joined(y.transpose(1, 2).flatten(2))
        return x + self.narrow(nn.functional.gelu(self.wide(self.second(x))))


def call_times(call, x, until, idle_s):
    """Seconds of each call, until until() or for a second at least."""
    times, end = [], time.monotonic() + 1
    while time.monotonic() < end or not until():
        begin = time.perf_counter()
        call(x)
        if x.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        time.sleep(idle_s)
    return times


def line(what, times):
    ordered = sorted(time * 1e3 for time in times)
    print(
        f"{what:24} {len(times):7} calls, median {statistics.median(ordered):.3f} "
        f"ms, 99 % below {ordered[int(len(ordered) * 0.99)]:.3f}, longest "
        f"{ordered[-1]:.3f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--budget-s", type=float, default=30)
    parser.add_argument("--fallback", default="eager", choices=("eager", "inductor"))
    parser.add_argument("--idle-ms", type=float, default=0)
    options = parser.parse_args()

    import weft
    import weft.backend

    model = Block().eval().to(options.device)
    x = torch.randn(8, 256, 256, device=options.device)
    idle_s = options.idle_ms / 1e3

    with torch.no_grad():
        alone = torch.compile(model) if options.fallback == "inductor" else model
        alone(x)
        line("the fallback alone", call_times(alone, x, lambda: True, idle_s))
        torch._dynamo.reset()
        mine = torch.compile(
            model,
            backend=weft.backend.compile,
            options={"budget_s": options.budget_s, "fallback": options.fallback},
        )
        count = len(weft.explain().graphs)
        mine(x)
        before = user_globals.in_force()

        def is_over():
            return all(graph.state != "searching" for graph in weft.explain().graphs[count:])

        line("while it is searched", call_times(mine, x, is_over, idle_s))
        mine(x)  # the trial
        line("afterwards", call_times(mine, x, lambda: True, idle_s))
        print("as eager:", bool(weft.verify(model, mine, [x])))
        print(
            "what is the program's own and was changed:",
            ", ".join(user_globals.changed(before)) or "nothing",
        )
    print(weft.explain())


if __name__ == "__main__":
    main()
