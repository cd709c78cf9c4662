"""A region as a separate graph, whose arguments are what the region reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode

from weft.regions.regions import (
    Region,
    Role,
    has_few_rows,
    operator_name,
    region_inputs,
    region_nodes,
    region_results,
    role_of,
)


@dataclasses.dataclass(frozen=True)
class Extracted:
    """`module` computes a tuple of the values of `results` from those of `inputs`;
    both are nodes of the graph that the region is in."""

    module: fx.GraphModule
    inputs: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]

    def device(self) -> torch.device:
        """Of the first result."""
        found: torch.device = self.results[0].meta["val"].device
        return found


def extracted(region: Region, is_summed: bool = False) -> Extracted:
    """The region's own graph. `is_summed`: with products of few rows as sums of
    products in float32, rounded once."""
    nodes = region_nodes(region)
    inputs, results = region_inputs(region, nodes), region_results(region, nodes)
    graph = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    for number, node in enumerate(inputs):
        known[node] = graph.placeholder(f"input_{number}")
        known[node].meta["val"] = node.meta["val"]
    for node in nodes:
        if is_summed and has_few_rows(node):
            known[node] = _as_sum(graph, node, known)
        else:
            known[node] = _copied(graph, node, known)
        known[node].meta["val"] = node.meta["val"]
    graph.output(tuple(known[node] for node in results))
    graph.lint()
    return Extracted(fx.GraphModule(torch.nn.Module(), graph), tuple(inputs), tuple(results))


def _copied(graph: fx.Graph, node: fx.Node, known: dict[fx.Node, fx.Node]) -> fx.Node:
    """The node in another graph; Inductor's names for a conversion and for a range
    become ATen's."""
    name = operator_name(node)
    if name == "convert_element_type" and len(node.args) == 2:
        given = node.args[0]
        assert isinstance(given, fx.Node)
        return graph.call_function(
            torch.ops.aten._to_copy.default, (known[given],), {"dtype": node.args[1]}
        )
    if node.target == torch.ops.prims.iota.default:
        length: Any = node.args[0]
        words: dict[str, Any] = dict(node.kwargs)
        start, step = words["start"], words["step"]
        return graph.call_function(
            torch.ops.aten.arange.start_step,
            (start, start + step * length, step),
            {"dtype": words["dtype"], "device": words["device"]},
        )
    return graph.node_copy(node, known.__getitem__)


def _as_sum(graph: fx.Graph, node: fx.Node, known: dict[fx.Node, fx.Node]) -> fx.Node:
    """mm(x, w) = sum over k of x[m, k, 1] * w[1, k, n]; addmm adds its first
    argument, which may be broadcast, before the result is rounded."""
    aten = torch.ops.aten
    dtype = node.meta["val"].dtype
    is_half = dtype.itemsize < 4

    def call(target: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> fx.Node:
        made = graph.call_function(target, args, dict(kwargs))
        values: Any = fx.node.map_arg((args, kwargs), lambda one: one.meta["val"])
        mode = detect_fake_mode([node.meta["val"]])
        assert mode is not None
        with mode:
            made.meta["val"] = target(*values[0], **values[1])
        return made

    def wide(given: Any) -> fx.Node:
        one = known[given]
        return call(aten._to_copy.default, one, dtype=torch.float32) if is_half else one

    x, w = (wide(given) for given in node.args[-2:])
    terms = call(
        aten.mul.Tensor, call(aten.unsqueeze.default, x, 2), call(aten.unsqueeze.default, w, 0)
    )
    found = call(aten.sum.dim_IntList, terms, [1])
    if len(node.args) == 3:
        found = call(aten.add.Tensor, found, wide(node.args[0]))
    return call(aten._to_copy.default, found, dtype=dtype) if is_half else found


def with_sources(
    graph: fx.Graph, wanted: Sequence[fx.Node]
) -> tuple[fx.Graph, dict[fx.Node, fx.Node], list[fx.Node]]:
    """(a graph without output that computes these nodes from inputs of `graph`, {node: its
    copy}, these inputs)"""
    needed: set[fx.Node] = set()
    ahead = list(wanted)
    while ahead:
        node = ahead.pop()
        if node not in needed:
            needed.add(node)
            ahead += node.all_input_nodes
    own = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    inputs = []
    for node in graph.nodes:
        if node not in needed:
            continue
        if role_of(node) is Role.INPUT:
            inputs.append(node)
            known[node] = own.placeholder(node.name)
            known[node].meta["val"] = node.meta["val"]
        else:
            known[node] = own.node_copy(node, known.__getitem__)
    return own, known, inputs


class KeptValues(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph operator by operator, and keeps the values of some nodes."""

    def __init__(self, module: fx.GraphModule, wanted: set[fx.Node]) -> None:
        super().__init__(module)
        self.kept: dict[fx.Node, Any] = {}
        self._wanted = wanted

    def run_node(self, n: fx.Node) -> Any:
        found = super().run_node(n)
        if n in self._wanted:
            self.kept[n] = found
        return found
