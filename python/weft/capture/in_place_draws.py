"""Random numbers that are drawn into a tensor, as calls that draw the same.

The exporter replaces x.normal_() with a call that draws into a copy of x. On some
layouts PyTorch draws into the copy in another order than into x.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

aten = torch.ops.aten
#: On the CPU, normal_ draws this many numbers or more in another order if they are
#: contiguous.
BLOCK = 16


def replace(graph: torch.fx.Graph, node: torch.fx.Node, name: str) -> bool:
    """Replaces the call of that ATen operator, if its order in memory matters."""
    first: Any = node.args[0] if node.args else None
    if name == "dropout_" and node_argument(node, 1, "p") < 1:
        _Calls(graph, node, _is_drawn_by_index(first)).dropout()
    elif name == "bernoulli_" and isinstance(node_argument(node, 1, "p"), float | int):
        calls = _Calls(graph, node, _is_drawn_by_index(first))
        if calls.order == calls.back == sorted(calls.order):
            return False
        calls.bernoulli()
    elif name == "normal_" and _is_copied_to_contiguous(first.meta["val"]):
        _Calls(graph, node).normal()
    else:
        return False
    return True


def node_argument(node: torch.fx.Node, position: int, name: str, default: Any = 0.5) -> Any:
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, default)


def _is_drawn_by_index(tensor: torch.fx.Node) -> bool:
    return tensor.meta["val"].device.type == "cpu" and bernoulli_draws_by_index()


@functools.cache
def bernoulli_draws_by_index() -> bool:
    """Whether bernoulli_(p) draws in the order of a tensor's indices on this CPU, as
    MKL does on Intel's processors. On others it draws in the order of its memory."""

    def drawn(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.bernoulli_(0.5, generator=torch.Generator().manual_seed(0))

    return torch.equal(drawn(torch.empty(16, 8).t()), drawn(torch.empty(8, 16)))


def _is_copied_to_contiguous(value: torch.Tensor) -> bool:
    """Whether that tensor has gaps, and a copy is contiguous, where order differs."""
    count = value.numel()
    return (
        value.device.type == "cpu"
        and isinstance(count, int)
        and count >= BLOCK
        and not value.is_contiguous()
        and torch.empty_like(value).is_contiguous()
    )


class _Calls:
    """Calls that stand for one call, and write what they draw into its tensor, in
    the order of its memory or of its indices."""

    def __init__(self, graph: torch.fx.Graph, node: torch.fx.Node, by_index: bool = False) -> None:
        self.graph, self.node = graph, node
        tensor: Any = node.args[0]
        self.tensor = tensor
        self.value = tensor.meta["val"]
        rank = self.value.dim()
        self.order = list(range(rank))
        if not by_index:
            self.order.sort(key=lambda dim: -self.value.stride(dim))
        self.back = sorted(range(rank), key=self.order.__getitem__)
        self.rows = self.value.permute(self.order)

    def call(self, operator: Any, *arguments: Any, value: torch.Tensor | None = None) -> Any:
        made = self.graph.call_function(operator, arguments)
        made.meta = dict(self.node.meta, val=self.value if value is None else value)
        return made

    def finish(self, result: Any) -> None:
        self.node.replace_all_uses_with(result)
        self.graph.erase_node(self.node)

    def noise(self, probability: float) -> Any:
        """Zeros and ones."""
        noise = self.call(aten.permute.default, self.tensor, self.order, value=self.rows)
        noise = self.call(aten.bernoulli.p, noise, probability, value=self.rows)
        return self.call(aten.permute.default, noise, self.back)

    def dropout(self) -> None:
        """dropout_ as it runs: on a GPU only dropout has a kernel of its own, which
        draws other numbers."""
        kept = 1.0 - node_argument(self.node, 1, "p")
        with self.graph.inserting_before(self.node):
            noise = self.call(aten.div.Tensor, self.noise(kept), kept)
            self.finish(self.call(aten.mul_.Tensor, self.tensor, noise))

    def bernoulli(self) -> None:
        """aten.bernoulli.p draws in the order of a contiguous tensor, on every CPU."""
        with self.graph.inserting_before(self.node):
            noise = self.noise(node_argument(self.node, 1, "p"))
            self.finish(self.call(aten.copy_.default, self.tensor, noise))

    def normal(self) -> None:
        """Draws one number after the other, as into a tensor with gaps: into pairs
        that are transposed, as their copy is not contiguous either, and a last one."""
        mean, std = (
            node_argument(self.node, 1, "mean", 0.0),
            node_argument(self.node, 2, "std", 1.0),
        )
        shape = list(self.rows.shape)
        pairs, rest = divmod(self.value.numel(), 2)
        with self.graph.inserting_before(self.node):
            drawn = [self.drawn([pairs, 2], mean, std)]
            if rest:
                drawn.append(self.drawn([1, 1], mean, std))
            flat = self.value.new_empty(2 * pairs + rest)
            numbers = self.call(aten.cat.default, drawn, value=flat)
            numbers = self.call(aten.view.default, numbers, shape, value=self.rows)
            numbers = self.call(aten.permute.default, numbers, self.back)
            self.finish(self.call(aten.copy_.default, self.tensor, numbers))

    def drawn(self, shape: list[int], mean: float, std: float) -> Any:
        """A row of as many normal numbers as that shape has elements."""
        value = self.value.new_empty(shape)
        made = self.call(aten.new_zeros.default, self.tensor, shape, value=value)
        made = self.call(aten.permute.default, made, [1, 0], value=value.t())
        made = self.call(aten.normal_functional.default, made, mean, std, value=value.t())
        made = self.call(aten.permute.default, made, [1, 0], value=value)
        return self.call(aten.view.default, made, [-1], value=value.view(-1))
