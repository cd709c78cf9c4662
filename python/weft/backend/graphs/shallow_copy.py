"""A copy of a module over the same tensors, with separate tables and containers.

torch.export binds other tensors in a module's tables for a moment, while other threads may
call the module. It also runs forward(), which may assign attributes. Neither is seen in the
module that was copied.
"""

from __future__ import annotations

from typing import Any

import torch

#: Around the call of the root, whatever computes it.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_TABLES = ("_parameters", "_buffers", "_modules")


def shallow_copy(module: torch.nn.Module, kind: type) -> torch.nn.Module:
    """The module as one of the class `kind`, without the hooks of its own call."""
    made = _copied(module, kind, {}, {})
    for name in _HOOKS:
        made.__dict__[name] = type(module.__dict__[name])()
    return made


def _copied(
    module: torch.nn.Module,
    kind: type,
    made: dict[int, torch.nn.Module],
    containers: dict[int, Any],
) -> torch.nn.Module:
    if id(module) in made:
        return made[id(module)]
    copy: torch.nn.Module = object.__new__(kind)
    made[id(module)] = copy
    copy.__dict__.update(
        (name, _copied_container(value, containers)) for name, value in vars(module).items()
    )
    for table in _TABLES:
        copy.__dict__[table] = dict(module.__dict__[table])
    for name, part in module._modules.items():
        if part is not None:
            copy._modules[name] = _copied(part, type(part), made, containers)
    return copy


def _copied_container(value: Any, containers: dict[int, Any]) -> Any:
    """The value; lists, dictionaries and sets are copied, each once."""
    if type(value) not in (list, dict, set):
        return value
    if id(value) not in containers:
        made = containers[id(value)] = type(value)()
        if type(value) is dict:
            made.update((k, _copied_container(v, containers)) for k, v in value.items())
        elif type(value) is list:
            made.extend(_copied_container(v, containers) for v in value)
        else:
            made.update(value)
    return containers[id(value)]
