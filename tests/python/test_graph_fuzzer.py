"""Random graphs go through lowering, scheduling and code generation for every target,
and so does every operator on tensors without dimensions, without elements and with
dimensions of one. There is code, or a sentence that says why not, and never a crash.

With WEFT_LONG_TESTS=1 the random graphs take 30 minutes, and the program is built
under the address sanitizer (docs/reference/graph.md)."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import tempfile
import time
import unittest
from collections.abc import Iterator
from typing import Any

# Before torch, which may look for Triton.
import triton_kernels

import torch

import captured_cases
import random_graphs
from random_graphs import RandomGraph
from weft.expect.reference import Reference
from weft_case import IS_LONG, ROOT

LONG_SECONDS = 30 * 60
SAMPLE = 150  #: random graphs, where nobody asks for more
GRAPHS_AT_ONCE = 50
#: Graphs that broke something once, as random seeds.
FOUND = ()
SANITIZED = os.path.join(ROOT, "build-sanitized")
#: Sizes of which each is made 0, and 1, in turn.
SIZES = (3, 4, 5)
TRIES = 12  #: to make a valid call of an operator on a shape
#: Their results hold anything.
UNINITIALISED = ("empty", "empty_like", "empty_permuted", "new_empty_strided")


def usual_program() -> str:
    return captured_cases.program("fuzz_graphs", "WEFT_FUZZ_GRAPHS")


def sanitized_program() -> str:
    """The program under the sanitizers, built now."""
    subprocess.run(
        [
            "cmake",
            "-S",
            ROOT,
            "-B",
            SANITIZED,
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DWEFT_OPTIMIZE=-O0",
            "-DWEFT_SANITIZE=address",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        ["cmake", "--build", SANITIZED, "--target", "fuzz_graphs"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return os.path.join(SANITIZED, "fuzz_graphs")


def sentences(answer: Any) -> Iterator[str]:
    """All reasons in an answer."""
    if isinstance(answer, dict):
        if "error" in answer:
            yield answer["error"]
        for part in answer.values():
            yield from sentences(part)
    elif isinstance(answer, list):
        for part in answer:
            yield from sentences(part)


class OneCall(RandomGraph):
    """A graph of one call of that operator, whose first input has that shape."""

    def __init__(self, name: str, shape: tuple[int, ...], seed: int) -> None:
        self.shape = list(shape)
        super().__init__(seed, [name])

    def new_input(self) -> random_graphs.Value:
        dtype = self.random.choice((torch.float32, torch.float32, torch.int64))
        return self.input_of(self.shape, dtype)


def shapes() -> list[tuple[int, ...]]:
    """No dimension; up to three, each of them 1 or 0 in turn; all of them 1."""
    found = [(), (1, 1), (1, 1, 1), (1, 1, 1, 1)]
    for rank in range(1, len(SIZES) + 1):
        for at, size in itertools.product(range(rank), (1, 0)):
            found.append(tuple(size if i == at else SIZES[i] for i in range(rank)))
    return found


def one_call(name: str, shape: tuple[int, ...]) -> dict[str, Any] | None:
    for seed in range(TRIES):
        graph = OneCall(name, shape, seed).graph()
        if graph is not None:
            return graph
    return None


class GraphFuzzer(unittest.TestCase):
    def check(self, program: str, graphs: list[tuple[Any, dict]]) -> None:
        """Feeds (label, graph) to the program, which must answer each."""
        lines = "".join(json.dumps(graph) + "\n" for _, graph in graphs)
        done = subprocess.run([program], input=lines, capture_output=True, text=True, timeout=1200)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if len(answers) < len(graphs):
            label, graph = graphs[len(answers)]
            self.fail(
                f"{label} ended {program} with {done.returncode}: "
                f"{done.stderr[-3000:]}\n{json.dumps(graph)}"
            )
        for (label, _), answer in zip(graphs, answers, strict=True):
            for reason in sentences(answer):
                self.assertNotIn("captured graph:", reason, label)
                self.assertGreater(len(reason.split()), 2, label)

    def random_graphs(self, seeds: Iterator[int]) -> Iterator[list]:
        """Groups of (seed, graph), without end."""
        while True:
            group = []
            while len(group) < GRAPHS_AT_ONCE:
                seed = next(seeds)
                graph = RandomGraph(seed).graph()
                if graph is not None:
                    group.append((f"random seed {seed}", graph))
            yield group

    def test_random_graphs(self) -> None:
        if IS_LONG:
            program, first = sanitized_program(), int(time.time()) << 20
            print(f"random seeds from {first}")
        else:
            program, first = usual_program(), 1
        end = time.monotonic() + LONG_SECONDS
        seeds = itertools.chain(FOUND, itertools.count(first))
        for number, group in enumerate(self.random_graphs(seeds), 1):
            self.check(program, group)
            is_last = time.monotonic() > end if IS_LONG else number * GRAPHS_AT_ONCE >= SAMPLE
            if is_last:
                break

    def test_every_operator_on_every_small_shape(self) -> None:
        graphs = [
            (f"{name} of {shape}", graph)
            for name in random_graphs.MAKERS
            for shape in shapes()
            if (graph := one_call(name, shape)) is not None
        ]
        made = {label.split(" of ")[0] for label, _ in graphs}
        self.assertGreater(
            len(made), 0.9 * len(random_graphs.MAKERS), set(random_graphs.MAKERS) - made
        )
        for first in range(0, len(graphs), GRAPHS_AT_ONCE):
            self.check(usual_program(), graphs[first : first + GRAPHS_AT_ONCE])

    def test_every_rule_is_called(self) -> None:
        """docs/reference/operators.md has all rules of the compiler."""
        with open(
            os.path.join(ROOT, "docs", "reference", "operators.md"), encoding="utf-8"
        ) as page:
            rules = {
                name
                for line in page
                if line.startswith("| ")
                for name in re.findall(r"`([\w.]+)`", line)
            }
        self.assertGreater(len(rules), 200)
        called: set[str] = set()
        for seed, name in itertools.product(range(20 * TRIES), random_graphs.MAKERS):
            graph = RandomGraph(seed, [name]).graph()
            for node in graph["nodes"] if graph else ():
                target = node["target"].removeprefix("aten.")
                called |= {target, target.split(".")[0]}
            if rules <= called:
                break
        self.assertEqual(rules - called, set())

    def test_kernels_of_single_numbers_give_what_eager_gives(self) -> None:
        graphs = [
            (f"{name} of {shape}", graph)
            for name in random_graphs.MAKERS
            for shape in ((), (1, 1, 1))
            if name not in UNINITIALISED and (graph := one_call(name, shape)) is not None
        ]
        variant = triton_kernels.TritonVariant("numbers", 0, 1, 132)
        answers = variant.generate([graph for _, graph in graphs], ())
        with tempfile.TemporaryDirectory() as folder:
            for (label, graph), answer in zip(graphs, answers, strict=True):
                if "error" in answer:
                    continue
                with self.subTest(case=label):
                    (function,) = variant.build([graph], [answer], folder)[0].values()
                    self.compare(graph, function)

    def compare(self, graph: dict[str, Any], function: Any) -> None:
        reference = Reference(graph)
        inputs = []
        for spec in reference.inputs:
            # All indices are 0: nothing has a second element.
            value = 0 if spec.dtype == torch.int64 else 0.75
            storage = torch.full((spec.storage_elements,), value)
            inputs.append(spec.view(storage.to(spec.dtype)))
        try:
            wanted = reference.function()(*inputs)
        except (RuntimeError, IndexError):
            return  # meta tensors take more than eager does
        for got, want in zip(function(inputs), wanted, strict=True):
            self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
            torch.testing.assert_close(got, want, equal_nan=True)


if __name__ == "__main__":
    unittest.main()
