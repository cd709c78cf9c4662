"""A region as a graph of its own, whose arguments are what the region reads."""

import dataclasses

import torch
from torch import fx

from weft.regions.regions import (
    Region,
    operator_name,
    region_inputs,
    region_nodes,
    region_results,
)


@dataclasses.dataclass(frozen=True)
class Extracted:
    """`module` computes a tuple of the values of `results` from those of `inputs`;
    both are nodes of the graph that the region is in."""

    module: fx.GraphModule
    inputs: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]


def extracted(region: Region) -> Extracted:
    """The region's own graph."""
    nodes = region_nodes(region)
    inputs, results = region_inputs(region, nodes), region_results(region, nodes)
    graph = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    for number, node in enumerate(inputs):
        known[node] = graph.placeholder(f"input_{number}")
        known[node].meta["val"] = node.meta["val"]
    for node in nodes:
        known[node] = _copied(graph, node, known)
        known[node].meta["val"] = node.meta["val"]
    graph.output(tuple(known[node] for node in results))
    graph.lint()
    return Extracted(fx.GraphModule(torch.nn.Module(), graph), tuple(inputs),
                     tuple(results))


def _copied(graph: fx.Graph, node: fx.Node,
            known: dict[fx.Node, fx.Node]) -> fx.Node:
    """The node in another graph; Inductor's name for a conversion becomes ATen's."""
    if (node.target is not None and operator_name(node) == "convert_element_type"
            and len(node.args) == 2):
        return graph.call_function(torch.ops.aten._to_copy.default,
                                   (known[node.args[0]],), {"dtype": node.args[1]})
    return graph.node_copy(node, known.__getitem__)
