"""Finds the line of a problem that writes into memory of two names."""

from __future__ import annotations

import collections
import inspect
import traceback
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from weft.problem.problem import Problem


def find(problem: Problem, model: torch.nn.Module, inputs: list[Any]) -> tuple[int, list[str]]:
    """(the line, the names that share what it writes) of the first call of the
    model's that does; (0, []) where none is seen. Runs the model."""
    names = _names_by_memory(model, inputs)
    shared = {memory: who for memory, who in names.items() if len(who) > 1}
    watch = _Watch(problem.path, shared)
    try:
        with torch.no_grad(), watch:
            model(*inputs)
    except Exception:  # it says enough without
        pass
    return watch.line, watch.names


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _names_by_memory(model: torch.nn.Module, inputs: list[Any]) -> dict[int, list[str]]:
    """The arguments, parameters and buffers that lie in each memory."""
    names = collections.defaultdict(list)
    arguments = list(inspect.signature(model.forward).parameters)
    for number, value in enumerate(inputs):
        name = arguments[min(number, len(arguments) - 1)]
        for leaf in pytree.tree_leaves(value):
            if isinstance(leaf, torch.Tensor):
                names[_memory(leaf)].append(name)
    for kind in (model.named_parameters, model.named_buffers):
        for name, tensor in kind(remove_duplicate=False):
            names[_memory(tensor)].append(name)
    return names


class _Watch(TorchDispatchMode):
    """Notes the first operator that writes into such memory."""

    def __init__(self, path: str, shared: dict[int, list[str]]) -> None:
        super().__init__()
        self.path, self.shared = path, shared
        self.line = 0
        self.names: list[str] = []

    def __torch_dispatch__(
        self,
        operator: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        for value, about in zip(args, operator._schema.arguments):
            writes = about.alias_info is not None and about.alias_info.is_write
            if writes and isinstance(value, torch.Tensor) and not self.line:
                self._note(value)
        return operator(*args, **(kwargs or {}))

    def _note(self, tensor: torch.Tensor) -> None:
        names = self.shared.get(_memory(tensor))
        if names is None:
            return
        lines = [
            frame.lineno or 0 for frame in traceback.extract_stack() if frame.filename == self.path
        ]
        self.line, self.names = (lines or [0])[-1], names
