"""Finds what a graph writes to, and which of its results share memory with that. The graph
is as traced: operators still write in place."""

import operator
from collections.abc import Iterator
from typing import Any

import torch


def is_result_written(program: Any) -> bool | None:
    """Whether a result of this torch.export.ExportedProgram, which is not
    decomposed yet, is what forward() writes to, or a view of it. None where its
    graph has other graphs in it, or is functional already, and does not tell."""
    graph, known = program.graph, {}
    if any(spec.kind.name.endswith("_MUTATION") for spec in program.graph_signature.output_specs):
        return None
    written, results = set(), []
    for node in graph.nodes:
        if node.op == "output":
            results = node.all_input_nodes
        if node.op != "call_function":
            known[node] = {node}
        elif node.target is operator.getitem:
            known[node] = known[node.args[0]]
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            return None
        else:
            known[node] = {node}
            for argument, given in _shared(node):
                known[node] = known[node] | known[given]
                if argument.alias_info.is_write:
                    written |= known[given]
    return any(not written.isdisjoint(known[node]) for node in results)


def _shared(node: torch.fx.Node) -> Iterator[Any]:
    """(argument of its operator, node given there) of those whose memory the
    operator writes to, or gives again."""
    schema = getattr(node.target, "_schema", None)
    for i, argument in enumerate(schema.arguments if schema else ()):
        if argument.alias_info is None:
            continue
        given = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        for one in given if isinstance(given, (list, tuple)) else [given]:
            if isinstance(one, torch.fx.Node):
                yield argument, one


def is_view_of(node: Any, nodes: Any) -> bool:
    """Whether the node of a functional graph is one of these, or an operator's
    view of one."""
    while node is not None and node not in nodes:
        if node.target is operator.getitem:
            node = node.args[0]
            continue
        schema = getattr(node.target, "_schema", None)
        first = schema.arguments[0] if schema and schema.arguments else None
        if first is None or first.alias_info is None or not node.args:
            return False
        node = node.args[0]
    return node is not None


def span_of(tensor: torch.Tensor) -> tuple[Any, Any]:
    """Addresses of the memory that it, or a view of it, may reach."""
    storage = tensor.untyped_storage()
    begin = storage.data_ptr()
    return begin, begin + storage.nbytes()


def overlap(one: Any, other: Any) -> Any:
    """Whether two tensors may share memory, by the bytes from the first to the last
    element of each."""
    if one.device != other.device or not one.numel() or not other.numel():
        return False
    a, b = one.data_ptr(), other.data_ptr()
    return a < b + _extent(other) and b < a + _extent(one)


def _extent(tensor: torch.Tensor) -> Any:
    return tensor.element_size() * (
        1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    )
