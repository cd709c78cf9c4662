"""Convolutions in bfloat16 whose norm, sum and ReLU the vendor's library computes with them.

cuDNN adds a bias and another tensor, and applies ReLU, before it stores a convolution. A
norm's scale is multiplied into the filters, in float32, and rounded once. One operator does
that for all filters, in each call, so that changed filters count. It took 43 µs for a
ResNet-50 (H200, 2026-11-30). In float16 the scaled filters could overflow."""

from __future__ import annotations

import dataclasses
import logging
import operator
from collections.abc import Callable, Container, Sequence
from typing import Any

import torch
from torch import fx

from weft.regions import insertion
from weft.regions.extraction import with_sources
from weft.regions.regions import Role, role_of

aten = torch.ops.aten
log = logging.getLogger("weft")
convert = torch.ops.prims.convert_element_type.default


@dataclasses.dataclass(frozen=True)
class Folded:
    """relu(half(convolution(x, filters) * scale + shift) [+ added])"""

    convolution: fx.Node
    scale: fx.Node
    shift: fx.Node
    added: fx.Node | None
    result: fx.Node


def is_allowed() -> bool:
    """Whether the program's settings let cuDNN compute, by any algorithm."""
    cudnn = torch.backends.cudnn
    return bool(
        cudnn.enabled
        and not cudnn.deterministic
        and not torch.are_deterministic_algorithms_enabled()
    )


def folded_convolutions(graph: fx.Graph, small: Container[fx.Node]) -> list[Folded]:
    """All of a graph whose norms are written as a scale and a shift (hoisting.py). `small`:
    nodes that depend on the graph's arguments through pointwise operators alone."""
    found: dict[fx.Node, Folded] = {}
    for node in graph.find_nodes(op="call_function", target=aten.convolution.default):
        one = _folded(node, small)
        if one is not None:
            found.setdefault(one.result, one)
    return list(found.values())


def _folded(convolution: fx.Node, small: Container[fx.Node]) -> Folded | None:
    x, filters, bias, _, _, _, transposed, _, groups = convolution.args
    values = [one.meta["val"] for one in (convolution, x, filters) if isinstance(one, fx.Node)]
    dtype = values[0].dtype
    if bias is not None or transposed or groups != 1 or dtype is not torch.bfloat16:
        return None
    if any(one.dim() != 4 or one.dtype != dtype for one in values):
        return None
    if any(one.shape[2:].numel() == 1 for one in values[:2]):
        return None  # its layout is ambiguous
    if not isinstance(filters, fx.Node) or role_of(filters) is not Role.INPUT:
        return None
    wide = _only_reader(convolution, convert)
    scaled = wide and _only_reader(wide, aten.mul.Tensor)
    shifted = scaled and _only_reader(scaled, aten.add.Tensor)
    half = shifted and _only_reader(shifted, convert)
    if not (wide and scaled and shifted and half) or half.meta["val"].dtype != dtype:
        return None
    scale, shift = _other_input(scaled, wide), _other_input(shifted, scaled)
    if scale is None or shift is None:
        return None
    layout = (values[0].shape[1], 1, 1), torch.float32, values[0].device
    for one in (scale, shift):
        value = one.meta["val"]
        is_known = one in small or role_of(one) is Role.INPUT
        if not is_known or (tuple(value.shape), value.dtype, value.device) != layout:
            return None
    if any(one.device != values[0].device for one in values):
        return None
    result = _only_reader(half, aten.relu.default)
    if result is not None:
        return Folded(convolution, scale, shift, None, result)
    total = _only_reader(half, aten.add.Tensor)
    result = total and _only_reader(total, aten.relu.default)
    added = total and _other_input(total, half)
    if result is None or added is None or not _is_alike(added, half):
        return None
    return Folded(convolution, scale, shift, added, result)


def _only_reader(node: fx.Node, target: object) -> fx.Node | None:
    """The node's one user, if it is a plain call of this operator."""
    if len(node.users) != 1:
        return None
    (user,) = node.users
    return user if user.target == target and not user.kwargs else None


def _other_input(node: fx.Node, one: fx.Node) -> fx.Node | None:
    """The other operand of a sum or product, if it is another tensor."""
    others = [other for other in node.all_input_nodes if other is not one]
    return others[0] if len(others) == 1 and len(node.args) == 2 else None


def _is_alike(one: fx.Node, other: fx.Node) -> bool:
    a, b = one.meta["val"], other.meta["val"]
    return bool(a.shape == b.shape and a.dtype == b.dtype and a.device == b.device)


#: Compiles a graph for fake arguments.
Compile = Callable[[fx.GraphModule, list[Any]], insertion.Kernel]


def fold(graph: fx.Graph, chosen: Sequence[Folded], compile_filters: Compile) -> None:
    """Has the vendor's library compute these convolutions. `compile_filters` compiles the
    graph that computes all filters and biases."""
    filters = _with_filters(graph, chosen, compile_filters)
    now: dict[fx.Node, fx.Node] = {}  # a replaced result → what replaced it
    for number, one in enumerate(chosen):
        x, _, _, *settings = one.convolution.args
        given: list[Any] = [x, filters[2 * number], filters[2 * number + 1]]
        if one.added is not None:
            given.append(now.get(one.added, one.added))
        stride, padding, dilation = settings[:3]
        value = one.result.meta["val"]
        layout = _channels_last(value)
        target = insertion.operator_for(
            f"convolution {len(given)} {stride} {padding} {dilation}",
            f"cuDNN {torch.backends.cudnn.version()}",
            VendorConvolution(stride, padding, dilation),
            [insertion.layout_of(layout)],
            len(given),
        )
        with graph.inserting_before(one.result):
            call = graph.call_function(target, tuple(given))
        call.meta.update({**one.result.meta, "val": layout})
        wanted = [_channels_last(node.meta["val"]) for node in given]
        wanted[2] = given[2].meta["val"]
        call.meta["eager_input_vals"] = (tuple(wanted), {})
        one.result.replace_all_uses_with(call, propagate_meta=False)
        now[one.result] = call


def _channels_last(value: Any) -> Any:
    """A fake tensor like it, whose channels lie next to each other."""
    if value.dim() != 4:
        return value
    with value.fake_mode:
        return torch.empty_like(value, memory_format=torch.channels_last)


class VendorConvolution:
    """A function of [x, filters, bias, and maybe what is added]."""

    #: Has the vendor's operators.
    operators: Any = aten

    def __init__(self, stride: Any, padding: Any, dilation: Any) -> None:
        self._settings = list(stride), list(padding), list(dilation), 1

    def __call__(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        """relu(convolution + bias [+ added]), channels last. PyTorch's operators compute it
        if the settings have changed, or if cuDNN fails."""
        if is_allowed():
            try:
                return [self._by_library(*arguments)]
            except RuntimeError as error:
                log.info("cuDNN does not compute a convolution: %s", error)
        x, filters, bias, *others = arguments
        stride, padding, dilation, groups = self._settings
        made = torch.nn.functional.conv2d(x, filters, bias, stride, padding, dilation, groups)
        made = torch.relu(made + others[0] if others else made)
        return [made.contiguous(memory_format=torch.channels_last)]

    def _by_library(
        self, x: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor, *added: torch.Tensor
    ) -> torch.Tensor:
        # As Inductor lays them out; a copy only if it did not.
        x, *given = (one.contiguous(memory_format=torch.channels_last) for one in (x, *added))
        made: torch.Tensor
        if given:
            made = self.operators.cudnn_convolution_add_relu(
                x, filters, given[0], 1.0, bias, *self._settings
            )
        else:
            made = self.operators.cudnn_convolution_relu(x, filters, bias, *self._settings)
        return made


def _with_filters(
    graph: fx.Graph, chosen: Sequence[Folded], compile_filters: Compile
) -> list[fx.Node]:
    """Nodes of the scaled filters, channels last, and the bias of each, which one operator
    computes."""
    wanted = [node for one in chosen for node in (_filters(one), one.scale, one.shift)]
    own, known, inputs = with_sources(graph, wanted)
    fakes = [node.meta["val"] for node in inputs]
    results: list[fx.Node] = []

    def call(target: Any, *args: Any) -> fx.Node:
        made = own.call_function(target, args)
        made.meta["val"] = target(*fx.node.map_arg(args, lambda one: one.meta["val"]))
        return made

    with fakes[0].fake_mode:
        for one in chosen:
            dtype = one.convolution.meta["val"].dtype
            scale = call(aten.view.default, known[one.scale], [-1, 1, 1, 1])
            # In the order in which they are to lie in memory, as a vector: Inductor chooses the
            # strides of other results.
            rows = call(aten.permute.default, known[_filters(one)], [0, 2, 3, 1])
            wide = call(aten.mul.Tensor, call(convert, rows, torch.float32), scale)
            results.append(call(aten.reshape.default, call(convert, wide, dtype), [-1]))
            bias = call(convert, call(aten.view.default, known[one.shift], [-1]), dtype)
            results.append(bias)
    own.output(tuple(results))
    module = fx.GraphModule(torch.nn.Module(), own)
    layouts = [insertion.layout_of(node.meta["val"]) for node in results]
    target = insertion.operator_for(
        "filters",
        module.code + repr([insertion.layout_of(one) for one in fakes]),
        compile_filters(module, fakes),
        layouts,
        len(inputs),
    )
    first = next(node for node in graph.nodes if role_of(node) is not Role.INPUT)
    made: list[fx.Node] = []
    with graph.inserting_before(first), fakes[0].fake_mode:
        values = [node.meta["val"] for node in results]
        together = insertion.add_call(graph, target, inputs, values)

        def part(number: int, shape: list[int]) -> fx.Node:
            vector = graph.call_function(operator.getitem, (together, number))
            vector.meta["val"] = results[number].meta["val"]
            whole = graph.call_function(aten.view.default, (vector, shape))
            whole.meta["val"] = vector.meta["val"].view(shape)
            return whole

        for number, one in enumerate(chosen):
            outputs, inputs_count, *size = _filters(one).meta["val"].shape
            rows = part(2 * number, [outputs, *size, inputs_count])
            made.append(graph.call_function(aten.permute.default, (rows, [0, 3, 1, 2])))
            made[-1].meta["val"] = rows.meta["val"].permute(0, 3, 1, 2)
            made.append(part(2 * number + 1, [outputs]))
    return made


def _filters(one: Folded) -> fx.Node:
    found = one.convolution.args[1]
    assert isinstance(found, fx.Node)
    return found
