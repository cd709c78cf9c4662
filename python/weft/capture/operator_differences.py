"""Finds the operators whose decomposition differs from eager's call.

Runs an exported program call by call in eager, and each call that the exporter
decomposes also in its decomposed form, on the same operands. Reports calls whose
values differ, whose strides are not those that the exporter assumed, and whose
decomposition has an operator that is not ATen's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from weft.capture import check, decompositions, graph as graphs, undecomposed_calls
from weft.capture.undecomposed_calls import KeptCall

OTHER_VALUES = "its decomposition gives other values than eager"
OTHER_STRIDES = "its strides are not those that torch.export assumed"
NO_ATEN = "its decomposition has an operator that is not ATen's"


def find(
    program: ExportedProgram,
    model: torch.nn.Module,
    leaves: list[Any],
    line_of: Callable[[torch.fx.Node], int],
    *,
    exactly: bool,
) -> list[KeptCall]:
    """The calls of `program` that differ, in order.

    `leaves`: the flattened inputs; buffers and inputs are written as forward()
    writes them. `line_of(node)`: the line of the problem file. `exactly`: values
    that differ in any bit count, instead of those beyond rounding.
    """
    search = _Search(program, line_of, exactly)
    with torch.no_grad():
        search.run(*_arguments(program, model, leaves))
    return search.found


def _arguments(program: ExportedProgram, model: torch.nn.Module, leaves: list[Any]) -> list[Any]:
    """Values of the program's placeholders."""
    given = iter(leaves)
    values = []
    for spec in program.graph_signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            values.append(next(given))
        else:
            value = graphs.attribute(model, spec.target)
            values.append(program.constants[spec.target] if value is None else value.detach())
    return values


class _Search:
    """An interpreter of the program that compares as it goes."""

    def __init__(
        self, program: ExportedProgram, line_of: Callable[[torch.fx.Node], int], exactly: bool
    ) -> None:
        self.program = program
        self.line_of = line_of
        self.exactly = exactly
        self.found: list[KeptCall] = []
        self.table = decompositions.decomposition_table()
        #: Nodes whose strides are not those that the exporter assumed.
        self.off: set[torch.fx.Node] = set()

    def run(self, *arguments: Any) -> None:
        search = self

        class Interpreter(torch.fx.Interpreter):
            def run_node(self, node: torch.fx.Node) -> Any:
                if not isinstance(node.target, torch._ops.OpOverload):
                    return super().run_node(node)
                args, kwargs = self.fetch_args_kwargs_from_env(node)
                return search.call(node, args, kwargs)

        Interpreter(self.program.graph_module).run(*arguments)

    def call(self, node: torch.fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Eager's result of that call."""
        operator = decompositions.original(node.target)
        is_kept = operator is not node.target
        compares = (
            not is_kept
            and undecomposed_calls.can_keep(operator)
            and is_decomposed(operator, self.table)
        )
        before = _copies((args, kwargs)) if compares else None
        value = operator(*args, **kwargs)
        reason = ""
        if (
            self._has_other_strides(node, value)
            and not is_kept
            and undecomposed_calls.can_keep(operator)
        ):
            reason = OTHER_STRIDES
        if not reason and before is not None:
            reason = self._differs(operator, before, value)
        if reason:
            self.found.append(KeptCall(node.name, str(operator), self.line_of(node), reason, value))
        return value

    def _has_other_strides(self, node: torch.fx.Node, value: Any) -> bool:
        """Whether they differ here first, and not for an operand's sake."""
        assumed = pytree.tree_leaves(node.meta.get("val"))
        if all(
            one.stride() == fake.stride()
            for one, fake in zip(pytree.tree_leaves(value), assumed)
            if isinstance(one, torch.Tensor) and isinstance(fake, torch.Tensor)
        ):
            return False
        self.off.add(node)
        return not any(input_node in self.off for input_node in node.all_input_nodes)

    def _differs(self, operator: Any, before: Any, value: Any) -> str:
        """Why the decomposed call does not stand for eager's; else ""."""
        if torch.Tag.nondeterministic_seeded in operator.tags:
            return ""
        try:
            args, kwargs = before
            program = decomposed_call(operator, args, kwargs, self.table)
        except Exception:  # the whole program was decomposed: not its fault
            return ""
        if any(
            isinstance(node.target, torch._ops.OpOverload)
            and graphs.call_target(node.target) is None
            for node in program.graph.nodes
        ):
            return NO_ATEN
        tensors = [leaf for leaf in pytree.tree_leaves(before) if isinstance(leaf, torch.Tensor)]
        try:
            got = program.module()(*tensors)
        except Exception:
            return OTHER_VALUES
        for one, other in zip(pytree.tree_leaves(value), pytree.tree_leaves(got)):
            if isinstance(one, torch.Tensor) and self._values_differ(one, other):
                return OTHER_VALUES
        return ""

    def _values_differ(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        if self.exactly:
            return not torch.equal(one.nan_to_num(), other.nan_to_num())
        try:
            check.compare(one, other, "")
        except check.Mismatch:
            return True
        return False


def is_decomposed(operator: Any, table: Any) -> bool:
    """Whether the exporter decomposes calls of that operator."""
    return (
        operator in table
        or (operator._schema.is_mutable and undecomposed_calls.functional(operator) in table)
        or (
            torch._C._dispatch_has_kernel_for_dispatch_key(
                operator.name(), "CompositeImplicitAutograd"
            )
            and operator.name() not in ("aten::view", "aten::reshape")
        )
    )


def decomposed_call(
    operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], table: Any
) -> ExportedProgram:
    """The program of that one call, decomposed; it takes the call's tensors in
    order."""
    leaves, structure = pytree.tree_flatten((args, kwargs))

    class Call(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> Any:
            given = iter(tensors)
            filled = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            own_args, own_kwargs = pytree.tree_unflatten(filled, structure)
            return operator(*own_args, **own_kwargs)

    tensors = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Call(), tensors, strict=False)
        return program.run_decompositions(table)


def _copies(values: Any) -> Any:
    """Tensors of their own, with the same strides."""
    return pytree.tree_map_only(torch.Tensor, _copy, values)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    if 0 in tensor.stride() or tensor.layout != torch.strided:
        return tensor.clone()
    made = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return made.copy_(tensor)
