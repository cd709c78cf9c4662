"""Captures the modules of PyTorch's own tests (ModuleInfo), in training and eval mode.

    benchmarks/module_capture.py [--inputs N] [--cases FILE] [MODULE ...]

Prints how many inputs are captured, refused with a sentence, or refused with an internal
error, and why. Capture runs whole and compares the graph's run with eager. Exits with 1
after an internal error.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "python"), os.path.join(ROOT, "python")]

import torch
from torch.utils import _pytree as pytree

import opinfo_capture
from operator_tests import module_db


def cases(
    info: Any, training: bool, inputs_max: int
) -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any], Callable[..., Any]]]:
    """(name, make, call, inputs) of those that eager can call."""
    torch.manual_seed(1)
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
    )
    for number, sample in enumerate(samples[:inputs_max]):
        if sample.forward_input is None:
            continue
        made = functions(info, sample, training)
        tensors = made[2]()
        if not tensors or any(one.layout != torch.strided for one in tensors):
            continue
        try:
            with torch.no_grad():
                made[1](made[0](), tensors)
        except Exception:  # some of their inputs are meant to fail
            continue
        yield (f"{info.name}.{number}", *made)


def functions(
    info: Any, sample: Any, training: bool
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """make, call and inputs of opinfo_capture.module_outcomes()."""
    given, forward = sample.constructor_input, sample.forward_input
    leaves, tree = pytree.tree_flatten((forward.args, forward.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def make() -> torch.nn.Module:
        torch.manual_seed(0)
        return info.module_cls(*given.args, **given.kwargs).train(training)

    def call(part: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> Any:
        now = list(leaves)
        for place, tensor in zip(places, inputs, strict=True):
            now[place] = tensor
        args, kwargs = pytree.tree_unflatten(now, tree)
        return part(*args, **kwargs)

    return make, call, lambda: [leaves[i].detach().clone() for i in places]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="only these")
    parser.add_argument("--inputs", type=int, default=14, help="of a module and mode, at most")
    parser.add_argument("--cases", metavar="FILE", help="append a JSON line for each")
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    for info in module_db:
        if options.modules and info.name not in options.modules:
            continue
        for mode in ("train", "eval"):
            for name, outcome, reason in opinfo_capture.module_outcomes(
                cases(info, mode == "train", options.inputs)
            ):
                counts[outcome] += 1
                if outcome != "captured":
                    print(f"{mode} {name}: {outcome}: {reason}", flush=True)
                if options.cases:
                    opinfo_capture.append(
                        options.cases,
                        [{"mode": mode, "case": name, "outcome": outcome, "reason": reason}],
                    )
    print(dict(counts))
    return 1 if counts["internal"] else 0


if __name__ == "__main__":
    sys.exit(main())
