"""Boolean outputs that only eager's own answer decides.

A comparison of half-precision values asks what they are after each operator has rounded its
result. float64 answers another question: 0.1 - 0.1 is 0 in bfloat16, but not if one of both
is a float64. Such outputs are compared with eager exactly. The condition is that every value
they depend on is rounded in one way only.
"""

from __future__ import annotations

from typing import Any

from weft.problem.node_names import used_by

#: Operators whose result is exact, or rounded once from an exact value. Division
#: is not among them: CUDA's eager multiplies with the inverse of a number.
EXACT_OPERATORS = frozenset(
    """
    abs add alias all amax amin any bitwise_and bitwise_not bitwise_or bitwise_xor
    cat ceil clamp clamp_max clamp_min clone constant_pad_nd contiguous copy detach
    diagonal eq expand fill flatten flip floor full full_like ge getitem gt isinf
    isnan le lift_fresh_copy logical_and logical_not logical_or logical_xor lt
    masked_fill max maximum min minimum mul ne neg ones ones_like permute relu repeat
    reshape roll round rsub scalar_tensor select select_scatter sign slice
    slice_scatter split split_with_sizes squeeze stack sub t to transpose
    tril triu trunc unfold unsqueeze view where zeros zeros_like
    _reshape_alias _to_copy _unsafe_view
""".split()
)
HALVES = ("float16", "bfloat16")


def exact_outputs(graph: dict[str, Any]) -> set[str]:
    """Names of the outputs of a graph (docs/reference/graph.md) that eager alone decides."""
    nodes = {node["name"]: node for node in graph["nodes"]}
    return {
        name
        for name in graph["outputs"]
        if _dtypes(nodes[name]) == ["bool"] and _is_exact(ancestors(nodes, name))
    }


def ancestors(nodes: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """That node and all that it depends on."""
    found: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        node = found[one] = nodes[one]
        waiting += used_by(node)
    return list(found.values())


def _is_exact(nodes: list[dict[str, Any]]) -> bool:
    has_halves = any(dtype in HALVES for node in nodes for dtype in _dtypes(node))
    return has_halves and all(
        node["kind"] != "call" or _operator(node) in EXACT_OPERATORS for node in nodes
    )


def _operator(node: dict[str, Any]) -> str:
    return node["target"].removeprefix("aten.").split(".")[0]


def _dtypes(node: dict[str, Any]) -> list[str]:
    return [value["dtype"] for value in node["values"] if value]
