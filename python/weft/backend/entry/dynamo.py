"""From Dynamo's graph to compiled graphs, by way of AOTAutograd.

AOTAutograd makes graphs of ATen operators that write into nothing and need no gradients:
one for inference, or one forward and one backward. It also takes care of views, mutations,
autocast and hooks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from weft.backend.entry.compiled_graph import CompiledGraph
from weft.backend.implementations import incumbent
from weft.backend.options import log, told
from weft.backend.searches import improvement, machine_facts
from weft.capture.traced_operators import kept_in_traces


def compile_graph(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Any
) -> Any:
    """What Dynamo calls instead of the graph: Inductor's code, in which kernels are
    inserted region by region, or compiled graphs, each searched whole."""
    if options.fallback == "inductor" and not incumbent.why_not(graph_module, example_inputs):
        try:
            machine_facts.begin(example_inputs, options)
            return incumbent.compile_graph(graph_module, example_inputs, options, improvement.adopt)
        except Exception as error:
            if type(error).__name__.endswith("RestartAnalysis"):
                raise
            log.info("Inductor's entry point did not take a graph: %s", told(error))
    return _compiled_graphs_of(graph_module, example_inputs, options)


def _compiled_graphs_of(graph_module: Any, example_inputs: Any, options: Any) -> Any:
    """One compiled graph for each graph that AOTAutograd makes."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import (
        min_cut_rematerialization_partition,
    )

    state = state_of(graph_module, example_inputs)

    def compiler(role: Any) -> Any:
        def compile_one_graph(module: Any, _: Any) -> Any:
            return _boxed(CompiledGraph(module, options, role, _positions(module, state)))

        return compile_one_graph

    compile_graphs = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=min_cut_rematerialization_partition,
    )
    with kept_in_traces():
        return compile_graphs(graph_module, example_inputs)


def _boxed(compiled_graph: Any) -> Any:
    """As a function: Dynamo wraps it, and what AOTAutograd looks for must be
    in its own dictionary."""

    def run(arguments: Any) -> Any:
        return compiled_graph(arguments)

    setattr(run, "_boxed_call", True)
    return run


def state_of(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """{position of an input: "parameter", or a buffer's name}."""
    state = {}
    placeholders = graph_module.graph.find_nodes(op="placeholder")
    for i, (node, value) in enumerate(zip(placeholders, example_inputs)):
        if isinstance(value, torch.nn.Parameter):
            state[i] = "parameter"
        elif "_buffers_" in str(node.target):
            state[i] = str(node.target).rsplit("_buffers_", 1)[1].strip("_")
    return state


def _positions(module: Any, state: Any) -> Any:
    """The same for an ATen graph: "primals_3" of a forward or backward graph
    and "arg2_1" of another are the third input of Dynamo's graph."""
    found = {}
    for i, node in enumerate(module.graph.find_nodes(op="placeholder")):
        name = re.fullmatch(r"primals_(\d+)|arg(\d+)_1", str(node.target))
        if not name:
            continue
        position = (int(name[1]) - 1) if name[1] else int(name[2])
        if position in state:
            found[i] = state[position]
    return found
