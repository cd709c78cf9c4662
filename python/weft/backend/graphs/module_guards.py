"""The modules of a model as they were when it was captured, and the look at each
call whether they still are: modes, children, parameters and buffers, hooks.

Python attributes are not looked at: like torch.export, the capture freezes them.
"""

import dataclasses
import itertools
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from weft.backend.graphs.problem_source import Unsupported

#: Hooks from there compute weights, or record only what a call asks for.
_LIBRARY_HOOKS = ("torch.nn.utils.", "transformers.")
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
_FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_HOOKS_OF_ALL = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)
_TABLES = ("_parameters", "_buffers")
_flat = itertools.chain.from_iterable
_training_of = operator.itemgetter("training")


@dataclasses.dataclass(frozen=True)
class ModuleRecord:
    """One module of the model, as it was."""

    path: str
    kind: type
    training: bool
    children: tuple[str, ...]
    parameters: dict[str, bool]  #: name: False if it was None
    buffers: dict[str, bool]


def records_of(module: torch.nn.Module, kind: type) -> list[ModuleRecord]:
    """A record of each module; `kind` is the class of the root. Unsupported if a
    part has a hook, which kernels would not call."""
    records = []
    for path, part in module.named_modules(remove_duplicate=False):
        if path and (hook := next(_hooks_of(part), None)) is not None:
            raise Unsupported(
                f"its part {path} has a hook ({_name_of(hook)}), which kernels would "
                "not call; remove the hook before weft.optimize"
            )
        records.append(
            ModuleRecord(
                path,
                type(part) if path else kind,
                part.training,
                tuple(part._modules),
                _present(part._parameters),
                _present(part._buffers),
            )
        )
    return records


def _present(table: dict[str, Any]) -> dict[str, bool]:
    return {name: value is not None for name, value in table.items()}


def _hooks_of(
    part: torch.nn.Module, tables: tuple[str, ...] = (*_FORWARD_HOOKS, *_BACKWARD_HOOKS)
) -> Iterator[Any]:
    """The hooks that a call of the module has to call."""
    for table in tables:
        for hook in vars(part)[table].values():
            of = getattr(hook, "__module__", None) or type(hook).__module__
            if not of.startswith(_LIBRARY_HOOKS):
                yield hook


def _name_of(hook: Any) -> str:
    return getattr(hook, "__qualname__", type(hook).__name__)


def has_global_hooks() -> bool:
    """True if hooks are called for every module of the process."""
    return any(getattr(torch.nn.modules.module, name) for name in _HOOKS_OF_ALL)


def is_counted(value: Any) -> bool:
    """True if PyTorch counts how often the value is written to."""
    return (
        isinstance(value, torch.Tensor)
        and not value.is_inference()
        and not torch.nn.parameter.is_lazy(value)
    )


class ModuleGuards:
    """Whether modules have the modes, children, parameters and buffers that were
    recorded, and no hooks. Threads may share it.

    Each call pays for this, so it is a comparison of flat lists in C loops."""

    def __init__(self, records: list[ModuleRecord], modules: dict[str, torch.nn.Module]) -> None:
        """KeyError if these are other modules."""
        self._records = records
        self._modules = [modules[record.path] for record in records]
        self.is_of_one_kind = modules.keys() == {record.path for record in records} and all(
            type(modules[record.path]) is record.kind for record in records if record.path
        )
        owners = [vars(module) for module in self._modules]
        # Each module once: a part may have two paths.
        self._owners = list({id(owner): owner for owner in owners}.values())
        self._trainings = [
            one.training for one in {id(own): one for own, one in zip(owners, records)}.values()
        ]
        self._child_tables = [own["_modules"] for own in self._owners if own["_modules"]]
        self._children = list(_flat(map(dict.values, self._child_tables)))
        self._names_fit = all(
            tuple(own["_modules"]) == one.children for own, one in zip(owners, records)
        )
        self._tensor_tables = [
            own[table] for own in self._owners for table in _TABLES if own[table]
        ]
        self._hooks_seen = -1

    def modes_fit(self) -> bool:
        """True if modes and children are what they were."""
        return (
            list(map(_training_of, self._owners)) == self._trainings
            and self._children == list(_flat(map(dict.values, self._child_tables)))
            and self._names_fit
            and (RemovableHandle.next_id == self._hooks_seen or self._has_no_hooks())
        )

    def _has_no_hooks(self) -> bool:
        """A full look. PyTorch numbers all hooks that are registered: while the next
        number is the same, no hook was added."""
        number = RemovableHandle.next_id
        if has_global_hooks() or any(
            next(_hooks_of(part, _BACKWARD_HOOKS + _FORWARD_HOOKS * bool(one.path)), None)
            is not None
            for one, part in zip(self._records, self._modules)
        ):
            return False
        self._hooks_seen = number
        return True

    def tensors(self) -> list[torch.Tensor | None]:
        """All parameters and buffers, now."""
        return list(_flat(map(dict.values, self._tensor_tables)))

    def tables_fit(self) -> bool:
        """True if modules have those parameters and buffers that they had."""
        return all(
            _present(part._parameters) == one.parameters and _present(part._buffers) == one.buffers
            for one, part in zip(self._records, self._modules)
        )
