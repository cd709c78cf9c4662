"""A model's step of training as two graphs. One gives the results, the new values of
buffers and what is kept. The other computes the gradients from what was kept and from the
results' gradients.

PyTorch's min-cut partition decides what is kept and what is computed again, as for
torch.compile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from weft.backend.graphs import (
    call_structure,
    exported_module as captures,
    module_guards,
)
from weft.backend.graphs.problem_source import Unsupported, is_view
from weft.capture.tracer_lock import tracing
from weft.capture.traced_operators import kept_in_traces
from weft.capture.graph import CONSTANT_ELEMENTS_MAX
from weft.problem import sentences

_LITERALS = (bool, int, float, str, type(None))
#: Attributes of every module.
_OF_MODULES = frozenset(vars(torch.nn.Module()))


@dataclasses.dataclass
class Step:
    """`captured` tells where the arguments of `forward` are found, and what its
    first results are; the rest of them is kept, and goes to `backward`, before
    the gradients of those results that have one."""

    captured: captures.Captured
    forward: torch.fx.GraphModule
    backward: torch.fx.GraphModule
    arguments: list[torch.Tensor]  # real tensors, of `forward`
    differentiable: list[bool]  # which results have a gradient
    #: (shape, dtype) of these gradients
    tangents: list[tuple[tuple[int, ...], torch.dtype]]
    wanted: list[int]  # arguments whose gradients `backward` gives, in order
    leaves: list[int]  # of the model's inputs, those that want a gradient
    draws: bool
    #: By module path: attributes that are plain values, which ModelNew compares at
    #: each call.
    settings: dict[str, dict[str, object]]
    #: Names of what has a gradient that is not held against its own size, and
    #: whose it is held against (gradients.lost).
    lost: list[str] = dataclasses.field(default_factory=list)
    anchor: str = ""

    @property
    def count(self) -> int:
        """Of the results that are not only kept."""
        return len(self.captured.results)


def capture(model: torch.nn.Module, inputs: Sequence[Any]) -> Step:
    """The Step of model(*inputs), in the mode that the model is in;
    Unsupported says why there is none."""
    inputs = tuple(inputs)
    call = call_structure.flatten((inputs, {}))
    captured, graph = captures.capture(model, call, module_guards.records_of(model, type(model)))
    check_results(captured, graph)
    arguments = [_argument(model, argument, inputs) for argument in captured.arguments]
    wanted = [i for i, one in enumerate(arguments) if one.requires_grad]
    if not wanted:
        raise Unsupported(
            "nothing in it can be trained: no parameter and no input of Model "
            "requires a gradient. Run it without --train, or set requires_grad "
            "on what shall be trained"
        )
    joint, differentiable, tangents = _joint(graph, arguments, wanted)
    forward, backward = _cut(joint, len(captured.results))
    leaves = [
        i
        for i, one in enumerate(torch.utils._pytree.tree_leaves(inputs))
        if isinstance(one, torch.Tensor) and one.requires_grad
    ]
    return Step(
        captured,
        forward,
        backward,
        arguments,
        differentiable,
        tangents,
        wanted,
        leaves,
        _draws(joint),
        _settings_of(model),
    )


def _settings_of(model: torch.nn.Module) -> dict[str, dict[str, object]]:
    return {
        path: {
            name: value
            for name, value in vars(part).items()
            if name not in _OF_MODULES and _is_literal(value)
        }
        for path, part in model.named_modules(remove_duplicate=False)
    }


def _is_literal(value: object) -> bool:
    """Whether Python's text of it is the value, and equal to itself."""
    if isinstance(value, tuple):
        return all(map(_is_literal, value))
    return isinstance(value, _LITERALS) and value == value


def check_results(captured: captures.Captured, graph: torch.fx.GraphModule) -> None:
    if captured.structure.objects or captured.result.objects:
        raise Unsupported("its inputs or results have a plain Python object")
    for value in captured.result_constants.values():
        raise Unsupported(f"one of its results is {value!r}, no tensor")
    (output,) = graph.graph.find_nodes(op="output")
    for (kind, _), node in zip(captured.results, output.args[0]):
        if kind == "input":
            raise Unsupported("its forward() writes into its inputs")
        if not isinstance(node, torch.fx.Node):
            raise Unsupported(f"one of its results is {node!r}, no tensor")
        if kind != "output":
            continue
        while is_view(node):
            node = node.args[0]
        if node.op == "placeholder":
            raise Unsupported("one of its results is an input, a parameter, or a view of one")


def _argument(
    model: torch.nn.Module, one: captures.Argument, inputs: Sequence[Any]
) -> torch.Tensor:
    """That tensor, as a leaf."""
    if one.kind in ("parameter", "buffer"):
        owner = model.get_submodule(one.owner)
        found = (owner._parameters if one.kind == "parameter" else owner._buffers)[one.name]
        assert found is not None
        return found
    if one.kind == "constant":
        assert isinstance(one.value, torch.Tensor)
        if one.value.numel() > CONSTANT_ELEMENTS_MAX:
            raise Unsupported(
                f"it holds a tensor of {one.value.numel()} elements that is no "
                "parameter and no buffer: register it as a buffer"
            )
        return one.value.detach()
    value = torch.utils._pytree.tree_leaves((inputs, {}))[one.leaf]
    if not isinstance(value, torch.Tensor):
        raise Unsupported(f"one of its inputs is {value!r}, no tensor")
    return value.detach().requires_grad_(value.requires_grad)


def _joint(
    graph: torch.fx.GraphModule, arguments: list[torch.Tensor], wanted: list[int]
) -> tuple[torch.fx.GraphModule, list[bool], list[tuple[tuple[int, ...], torch.dtype]]]:
    """(a graph of forward's arguments and of gradients, which results have
    one, and of which shape and dtype)."""
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.enable_grad():
        differentiable = [one.requires_grad for one in graph(*arguments)]
    if not any(differentiable):
        raise Unsupported(
            "none of its results depends on a parameter or input that requires a gradient"
        )

    def joint(
        primals: list[torch.Tensor], tangents: list[torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        with torch.enable_grad():
            results = graph(*primals)
            gradients = torch.autograd.grad(
                [one for one, has in zip(results, differentiable) if has],
                [primals[i] for i in wanted],
                tangents,
                allow_unused=True,
            )
        return [*results], [*gradients]

    try:
        with torch.no_grad():
            tangents = [
                torch.zeros_like(one) for one, has in zip(graph(*arguments), differentiable) if has
            ]
        with tracing, kept_in_traces():
            traced = make_fx(joint, tracing_mode="fake")(arguments, tangents)
            if mutable_calls(traced):
                traced = _functional(traced, arguments, tangents)
        return (
            traced,
            differentiable,
            [(tuple(tangent.shape), tangent.dtype) for tangent in tangents],
        )
    except Exception as error:
        raise Unsupported(
            f"its gradients cannot be captured: {sentences.of_error(error)}"
        ) from None


def _functional(
    joint: torch.fx.GraphModule, arguments: list[torch.Tensor], tangents: list[torch.Tensor]
) -> torch.fx.GraphModule:
    """The same graph of operators that write into nothing, as AOTAutograd has it:
    formulas of derivatives may write into tensors that they made."""
    from torch.fx.experimental.proxy_tensor import make_fx

    # The partition knows the arguments of both passes by these names.
    def functional(primals: list[torch.Tensor], tangents: list[torch.Tensor]) -> object:
        return torch.func.functionalize(joint, remove="mutations")(primals, tangents)

    with torch.no_grad():
        return make_fx(functional, tracing_mode="fake", _allow_non_fake_inputs=True)(
            arguments, tangents
        )


def mutable_calls(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Calls of operators that write into an operand."""
    return [
        node
        for node in graph.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
    ]


def _cut(
    joint: torch.fx.GraphModule, count: int
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """(forward, backward)"""
    from torch._functorch.partitioners import (
        min_cut_rematerialization_partition,
    )

    for node in list(joint.graph.nodes):
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
    if calls := mutable_calls(joint):
        raise Unsupported(
            "its gradients are computed by an operator that "
            f"writes into its operands ({calls[0].target})"
        )
    joint.graph.eliminate_dead_code()
    joint.recompile()
    return min_cut_rematerialization_partition(joint, None, num_fwd_outputs=count)


def _draws(graph: torch.fx.GraphModule) -> bool:
    return any(
        torch.Tag.nondeterministic_seeded in node.target.tags
        for node in graph.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    )
