"""How many terms an ATen call sums for each element that it gives: rounding
errors grow with them (docs/explanation/verification.md, `L`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.problem import operator_trace

#: Stands for the sums of a call that is not known, and ends the count: from
#: 2^8 on the tolerance is compare.FLOAT32_FLOOR_MAX.
UNTOLD = 1 << 12
#: An elementwise call counts so many. exp(x) as 2^(x log2 e), which is how
#: Triton has it, errs by up to 34 eps, near its overflow.
ELEMENTWISE = 2
#: Products, by the place of their left factor, whose last dimension is summed.
_PRODUCTS = {
    "mm": 0,
    "bmm": 0,
    "mv": 0,
    "dot": 0,
    "matmul": 0,
    "linear": 0,
    "addmm": 1,
    "baddbmm": 1,
    "addmv": 1,
}
_REDUCERS = ("sum", "mean", "var", "std", "norm", "prod", "pool")
_ALONG = ("_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp")
#: Give elements that they were given, or constants.
_CHOICES = {
    "amax",
    "amin",
    "aminmax",
    "cat",
    "constant_pad_nd",
    "cummax",
    "cummin",
    "diag_embed",
    "embedding",
    "eye",
    "flip",
    "gather",
    "im2col",
    "index",
    "index_select",
    "kthvalue",
    "masked_select",
    "max",
    "min",
    "pixel_shuffle",
    "pixel_unshuffle",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "repeat",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "roll",
    "scalar_tensor",
    "sort",
    "stack",
    "take",
    "topk",
    "tril",
    "triu",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
}
#: Elementwise, though the framework has no tag that says so.
_UNTAGGED = {"glu", "hardswish", "log_sigmoid_forward", "_prelu_kernel"}


class TermsTrace(operator_trace.Recorder):
    """Of all calls that are made within it, also how many terms they sum
    together: each adds to the error of those before."""

    def __init__(self) -> None:
        super().__init__()
        self._total = 0

    @property
    def length(self) -> int:
        return min(max(1, self._total), UNTOLD)

    def on_call(
        self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        result = super().on_call(function, args, kwargs)
        told = _told(function, args, result)
        self._total += UNTOLD if told is None else told
        return result


def length_of_graph(graph_module: torch.fx.GraphModule) -> int:
    """The same of all calls of a traced graph, by the shapes that it notes."""
    total = 0
    for node in graph_module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        args = torch.fx.map_arg(node.args, lambda one: one.meta.get("val"))
        try:
            told = _told(node.target, args, node.meta.get("val"))
            total += UNTOLD if told is None else int(told)
        except Exception:  # a size that is a symbol
            return UNTOLD
    return min(max(1, total), UNTOLD)


def terms(
    name: str,
    args: Sequence[Any],
    shapes: Sequence[Sequence[int]],
    results: Sequence[Sequence[int]],
) -> int | None:
    """What an element of its results is the sum of; None: it is none of those
    that sum.

    args: the call's, of which only numbers and texts are read. shapes: of the
    tensors among them; results: of what it gives.
    """
    name = name.rstrip("_")
    if name in _PRODUCTS:
        return (shapes[_PRODUCTS[name]] or [1])[-1]
    if name == "convolution":
        weight, is_transposed = shapes[1], len(args) > 6 and args[6]
        return prod(weight) // max(1, weight[1 if is_transposed else 0])
    if name == "einsum":
        return _einsum_length(args[0], shapes)
    if name == "scaled_dot_product_attention":
        return max(shapes[0][-1], shapes[1][-2])
    if name in _ALONG:
        return shapes[0][args[1]] if shapes[0] else 1
    if "renorm" in name or not any(word in name for word in _REDUCERS):
        return None
    # Norms give their statistics as further results: the smallest tells.
    smallest = min(map(prod, results), default=1)
    ratio = max(map(prod, shapes), default=1) // max(1, smallest)
    # Windows overlap.
    is_window = "avg_pool" in name and "adaptive" not in name
    return max(1, ratio, prod(args[1]) if is_window else 1)


def _einsum_length(equation: str, shapes: Sequence[Sequence[int]]) -> int:
    """Elements that are summed for each of the result's; where an ellipsis or
    an implied result hides letters, all that the largest operand has."""
    operands, arrow, result = equation.replace(" ", "").partition("->")
    letters = operands.split(",")
    if not arrow or "." in equation or [*map(len, letters)] != [*map(len, shapes)]:
        return max(map(prod, shapes), default=1)
    extents: dict[str, int] = {}
    for names, shape in zip(letters, shapes):
        for letter, extent in zip(names, shape):
            extents[letter] = max(extent, extents.get(letter, 1))
    return prod(n for letter, n in extents.items() if letter not in result)


def _told(function: Any, args: Any, result: Any) -> int | None:
    """What is known of a call that was made: 0, if it rounds nothing; None, if
    nothing. Who draws numbers is not known."""
    if (
        getattr(function, "namespace", "") != "aten"
        or torch.Tag.nondeterministic_seeded in function.tags
    ):
        return None
    given, made = _tensors(args), _tensors(result)
    if not made:
        return None if function._schema.is_mutable else 0
    if any(t.is_complex() or t.is_nested or t.layout is not torch.strided for t in given + made):
        return None
    if not any(t.is_floating_point() for t in made):
        return 0
    name = function.overloadpacket.__name__
    # What fills such memory, a kernel or another library, is not seen.
    if "empty" in name or name == "lift_fresh":
        return None
    told = terms(name, args, [t.shape for t in given], [t.shape for t in made])
    if told is not None:
        return told
    if function.is_view or name in _CHOICES or not operator_trace.computes(str(function)):
        return 0
    return ELEMENTWISE if _is_elementwise(name.rstrip("_")) else None


@cache
def _is_elementwise(name: str) -> bool:
    """Whether any of its overloads is: not all have the tag."""
    packet = getattr(torch.ops.aten, name, None)
    overloads = packet.overloads() if packet else ()
    return name in _UNTAGGED or any(
        torch.Tag.pointwise in getattr(packet, overload).tags for overload in overloads
    )


def _tensors(nested: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(nested) if isinstance(leaf, torch.Tensor)]
