"""A region's part of a composed module as a graph in which each kernel is an operator:
Inductor compiles, and fuses, what lies between the kernels."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode

from weft.backend.graphs.problem_source import Source
from weft.capture.tracer_lock import traced, tracing
from weft.backend.searches.region_kernel import Kernel, KernelOfRegion
from weft.backend.searches.region_module import KERNEL_PREFIX, RegionModule
from weft.regions import insertion
from weft.regions.extraction import Extracted
from weft.regions.insertion import Layout

FILE = "subgraphs.json"


class NoGraph(Exception):
    """Why a region's part of a composed module is one operator."""


@dataclasses.dataclass(frozen=True)
class SubgraphFacts:
    """What a run wrote down of a subgraph: the text of its reference, a function
    `reference` of tensors, and the layouts of its arguments and results."""

    reference: str
    inputs: tuple[Layout, ...]
    results: tuple[Layout, ...]

    def function(self) -> Callable[..., Any]:
        """The reference: of tensors; gives one tensor, or a tuple of them."""
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(self.reference, "<weft reference>", "exec"), scope)
        found: Callable[..., Any] = scope["reference"]
        return found

    def module(self, mode: FakeTensorMode) -> fx.GraphModule:
        """The reference as a graph that gives a tuple."""
        function = self.function()

        def run(*given: torch.Tensor) -> tuple[Any, ...]:
            made = function(*given)
            return made if isinstance(made, tuple) else (made,)

        with tracing, mode:
            values = [
                torch.empty_strided(shape, strides, dtype=dtype, device=device)
                for shape, strides, dtype, device in self.inputs
            ]
            found: fx.GraphModule = traced(run, values)
        return found


def facts_of(path: str, device: torch.device) -> dict[str, SubgraphFacts]:
    """{subgraph: facts} of the result that is kept at `path`, for calls on `device`; {} if
    the file is missing or has another form."""

    def layouts(types: list[dict[str, Any]]) -> tuple[Layout, ...]:
        return tuple(
            (tuple(one["shape"]), tuple(one["stride"]), getattr(torch, one["dtype"]), device)
            for one in types
        )

    try:
        with open(os.path.join(path, FILE), encoding="utf-8") as file:
            return {
                str(one["id"]): SubgraphFacts(
                    one["source"]["code"],
                    layouts(one["input_types"]),
                    layouts(one["output_types"]),
                )
                for one in json.load(file)
            }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


class SubgraphKernels:
    """The kernels of a region's module, each as an operator. `owner` tells the region from
    others of the process that may have the same kernels: each has operators of its own."""

    def __init__(
        self,
        owner: str,
        module: RegionModule,
        facts: Mapping[str, SubgraphFacts],
        source: Source,
        on_failure: Callable[[str], None],
    ) -> None:
        self.module = module
        self._owner = owner
        self._facts = facts
        self._source = source
        self._on_failure = on_failure
        self._kernels: dict[str, Kernel] = {}
        self._operators: dict[str, torch._ops.OpOverload] = {}

    def inserted(self, used: Collection[str] | None) -> list[Kernel]:
        """Those that are operators, of the subgraphs `used` (None: of all)."""
        return [kernel for name, kernel in self._kernels.items() if used is None or name in used]

    def graph(self, extracted: Extracted, used: Collection[str] | None = None) -> fx.Graph:
        """The graph of the region's inputs that gives its results, decomposed as Inductor's
        are. Kernels of the subgraphs `used` are operators (None: all); in the place of the
        others are their own operators. NoGraph says why there is none."""
        from torch._inductor.decomposition import select_decomp_table

        values = [node.meta["val"] for node in extracted.inputs]
        mode = detect_fake_mode(values)
        if mode is None:
            raise NoGraph("its inputs have no fake values")
        replaced: dict[str, Callable[..., Any]] = {}
        for name in self.module.subgraphs:
            is_used = used is None or name in used
            facts = self._facts.get(name)
            if facts is None:
                raise NoGraph(f"{FILE} does not describe {name}")
            function = self._operator(name, facts, mode) if is_used else facts.function()
            replaced[KERNEL_PREFIX + name] = function
        try:
            with tracing, mode:
                found = traced(
                    self.module.function(replaced),
                    values,
                    decomposition_table=select_decomp_table(),
                )
        except Exception as error:
            raise NoGraph(f"tracing it failed with {type(error).__name__}: {error}") from error
        graph: fx.Graph = found.graph
        graph.eliminate_dead_code()
        _check(graph, extracted)
        return graph

    def _operator(
        self, name: str, facts: SubgraphFacts, mode: FakeTensorMode
    ) -> torch._ops.OpOverload:
        if name not in self._operators:
            if len(facts.inputs) > insertion.ARGUMENTS_MAX:
                raise NoGraph(f"{name} has more inputs than an operator may have")
            try:
                reference = facts.module(mode)
            except Exception as error:
                raise NoGraph(f"the reference of {name} failed with {error}") from error
            kernel = Kernel(
                self._source, KernelOfRegion(self.module, name), reference, self._on_failure
            )
            self._kernels[name] = kernel
            self._operators[name] = insertion.operator_for(
                f"{self._owner} {name}",
                self.module.text,
                kernel,
                facts.results,
                len(facts.inputs),
            )
        return self._operators[name]


def _check(graph: fx.Graph, extracted: Extracted) -> None:
    """Inductor compiled the readers of the results for their shapes and strides."""
    for node in graph.nodes:
        if node.op not in ("placeholder", "call_function", "output"):
            raise NoGraph(f"it has a tensor of its own ({node.target})")
    (results,) = graph.output_node().args
    assert isinstance(results, (tuple, list))
    for one, node in zip(results, extracted.results, strict=True):
        expected = node.meta["val"]
        got = one.meta.get("val") if isinstance(one, fx.Node) else None
        if not isinstance(got, torch.Tensor) or _layout(got) != _layout(expected):
            raise NoGraph(f"a result is {got!r} instead of {expected!r}")


def _layout(one: torch.Tensor) -> tuple[object, ...]:
    strides = tuple(
        stride for size, stride in zip(one.shape, one.stride()) if size > 1 and one.numel()
    )
    return tuple(one.shape), strides, one.dtype, one.device
