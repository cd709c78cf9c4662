"""Gives the outputs of a captured graph the strides that eager's outputs have.

A decomposition may return another layout than eager's operator. Each output that
differs gets one copy, which the compiler can fuse with the output's kernel.
"""

from __future__ import annotations

from typing import Any

import torch

Graph = dict[str, Any]


def differing(expected: list[torch.Tensor], got: list[torch.Tensor]) -> list[int]:
    """Indices of the outputs whose strides differ in a dimension of 2 or more."""
    return [
        index
        for index, (one, other) in enumerate(zip(expected, got, strict=True))
        if _plain(one) != _plain(other)
    ]


def _plain(tensor: torch.Tensor) -> list[int]:
    """Strides in elements, without those that no element depends on."""
    if tensor.numel() == 0:
        return []
    return [step for size, step in zip(tensor.shape, tensor.stride()) if size > 1]


def add_copies(
    graph: Graph, expected: list[torch.Tensor], got: list[torch.Tensor], given: list[Any]
) -> list[int]:
    """Appends copies to `graph` for the outputs that differ; returns the indices
    of those that a copy cannot make: views of `given` (inputs and state) or of
    another output, and layouts with gaps or overlaps."""
    left: list[int] = []
    copies: dict[str, str] = {}
    names = list(graph["outputs"])
    by_name = dict(zip(names, map(_memory, got)))
    memory = [_memory(one) for one in given if isinstance(one, torch.Tensor)]
    memory += by_name.values()
    for index in differing(expected, got):
        name = names[index]
        order = _dense_order(expected[index])
        if order is None or memory.count(by_name[name]) > 1:
            left.append(index)
            continue
        if name not in copies:
            copies[name] = _copy(graph, name, expected[index], order)
        graph["outputs"][index] = copies[name]
    return left


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _dense_order(tensor: torch.Tensor) -> list[int] | None:
    """Dimensions from the slowest to the fastest; None where the elements do not
    fill one block of memory."""
    strides = tensor.stride()
    dims = sorted(range(tensor.dim()), key=lambda dim: (-strides[dim], -tensor.shape[dim]))
    step = 1
    for dim in reversed(dims):
        if tensor.shape[dim] == 1:
            continue
        if tensor.stride(dim) != step:
            return None
        step *= tensor.shape[dim]
    return dims


def _copy(graph: Graph, name: str, like: torch.Tensor, order: list[int]) -> str:
    """The name of a new node: a copy of the node `name` with the layout of
    `like`, whose dimensions lie in `order`."""
    source = next(node["source"] for node in graph["nodes"] if node["name"] == name)
    moved = like.permute(order)
    back = sorted(range(len(order)), key=order.__getitem__)

    def call(
        operator: str, of: str, tensor: torch.Tensor, args: list[Any], kwargs: dict[str, Any]
    ) -> str:
        made = _free_name(graph, f"{name}_layout")
        graph["nodes"].append(
            {
                "name": made,
                "kind": "call",
                "target": operator,
                "args": [{"node": of}, *args],
                "kwargs": kwargs,
                "values": [
                    {
                        "dtype": str(tensor.dtype).removeprefix("torch."),
                        "shape": list(tensor.shape),
                        "stride": list(tensor.stride()),
                    }
                ],
                "is_tuple": False,
                "source": source,
            }
        )
        return made

    is_moved = order != sorted(order)
    if is_moved:
        name = call("aten.permute.default", name, moved, [order], {})
    name = call(
        "aten.clone.default",
        name,
        moved,
        [],
        {"memory_format": {"memory_format": "contiguous_format"}},
    )
    if is_moved:
        name = call("aten.permute.default", name, like, [back], {})
    return name


def _free_name(graph: Graph, wish: str) -> str:
    taken = {node["name"] for node in graph["nodes"]}
    count, name = 1, wish
    while name in taken:
        count += 1
        name = f"{wish}_{count}"
    return name
