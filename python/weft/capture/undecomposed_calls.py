"""Keeps single calls of an exported program undecomposed, with eager's strides.

A kept call is traced as an operator of weft's own, which the exporter cannot
decompose and whose results have the recorded strides. The written graph has the
original ATen operator (decompositions.unshielded).
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.capture import decompositions

#: Alias annotations of a schema: "Tensor(a)", "Tensor(a!)", "Tensor(a -> *)[]".
_ALIASES = re.compile(r"(?<=Tensor)\([a-z][^)]*\)")


@dataclasses.dataclass(frozen=True)
class KeptCall:
    """One call that stays undecomposed.

    `node`: its name in the exported program. `operator`: as in "aten.cross.default".
    `line`: of the problem file, or 0. `reason`: a clause that follows the operator's
    name. `results`: what eager's call returned: a tensor, or a list or tuple.
    """

    node: str
    operator: str
    line: int
    reason: str
    results: Any = dataclasses.field(compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {"operator": self.operator, "line": self.line, "reason": self.reason}


def can_keep(target: Any) -> bool:
    """Whether a call of that operator can be kept: it is an ATen operator that
    returns tensors and writes into nothing, or has a functional form."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return False
    returns = target._schema.returns
    return (
        bool(returns)
        and functional(target) is not None
        and all(str(one.type) in ("Tensor", "List[Tensor]") for one in returns)
    )


def functional(target: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """`target`, or for an in-place operator its functional overload; None where
    there is none."""
    if not target._schema.is_mutable:
        return target
    name = target._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    if not name.endswith("_") or packet is None:
        return None
    return getattr(packet, target._overloadname, None)


def keep(graph: torch.fx.Graph, calls: list[KeptCall]) -> None:
    """Replaces these calls in an exported program's graph, in place."""
    nodes = {node.name: node for node in graph.nodes}
    for call in calls:
        node = nodes[call.node]
        original = functional(node.target)
        assert original is not None  # can_keep()
        with graph.inserting_before(node):
            kept = graph.call_function(_define(original, call.results), node.args, node.kwargs)
            kept.meta = dict(node.meta)
            result = kept
            if original is not node.target:
                result = graph.call_function(torch.ops.aten.copy_.default, (node.args[0], kept))
                result.meta = dict(node.meta)
        node.replace_all_uses_with(result)
        graph.erase_node(node)


def _define(original: torch._ops.OpOverload, results: Any) -> torch._ops.OpOverload:
    """A new operator with the schema of `original`, without aliases, which returns
    tensors of the layouts of `results`."""
    layouts = pytree.tree_map_only(torch.Tensor, Layout.of, results)

    def made(*args: Any, **kwargs: Any) -> Any:
        # Fake tensors are computed by tensors on the device "meta".
        is_meta = any(
            isinstance(leaf, torch.Tensor) and leaf.is_meta
            for leaf in pytree.tree_leaves((args, kwargs))
        )
        return pytree.tree_map_only(Layout, lambda layout: layout.empty(is_meta), layouts)

    _, _, signature = str(original._schema).partition("(")
    tags = [tag for tag in original.tags if tag == torch.Tag.nondeterministic_seeded]
    return decompositions.define_kept(original, _ALIASES.sub("", "(" + signature), made, tags)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Shape, strides (both in elements), dtype and device of a tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(tensor: torch.Tensor) -> Layout:
        return Layout(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.device)

    def empty(self, is_meta: bool) -> torch.Tensor:
        return torch.empty_strided(
            self.shape, self.stride, dtype=self.dtype, device="meta" if is_meta else self.device
        )
