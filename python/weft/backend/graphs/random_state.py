"""The generators that a graph may draw from: read, set, and left as they were."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

#: The state of the processor's generator, and of each GPU's.
States = tuple[torch.Tensor, list[tuple[torch.device, torch.Tensor]]]


def random_states(arguments: Sequence[Any]) -> States:
    """Of the generators that a graph on these tensors may draw from."""
    devices = {
        argument.device
        for argument in arguments
        if isinstance(argument, torch.Tensor) and argument.device.type == "cuda"
    }
    return torch.get_rng_state(), [(device, torch.cuda.get_rng_state(device)) for device in devices]


def set_random_states(states: States) -> None:
    """Makes them what random_states() has returned."""
    torch.set_rng_state(states[0])
    for device, state in states[1]:
        torch.cuda.set_rng_state(state, device)


@contextlib.contextmanager
def kept(arguments: Sequence[Any], is_drawn: bool) -> Iterator[None]:
    """Leaves the generators as they were before. They are not touched if nothing
    is drawn: another thread may be drawing from them."""
    before = random_states(arguments) if is_drawn else None
    try:
        yield
    finally:
        if before is not None:
            set_random_states(before)


def uses_rng(graph_module: torch.fx.GraphModule) -> bool:
    """Whether the graph draws random numbers, or may: a higher-order operator calls
    another graph, which is not inspected."""
    return any(
        torch.Tag.nondeterministic_seeded in node.target.tags and not _drops_nothing(node)
        if isinstance(node.target, torch._ops.OpOverload)
        else isinstance(node.target, torch._ops.HigherOrderOperator)
        for node in graph_module.graph.nodes
        if node.op == "call_function"
    )


def _drops_nothing(node: torch.fx.Node) -> bool:
    """Whether the operator is attention without dropout, which draws nothing."""
    target: Any = node.target
    for i, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            given = (
                node.args[i]
                if i < len(node.args)
                else node.kwargs.get("dropout_p", argument.default_value)
            )
            return bool(given == 0)
    return False
