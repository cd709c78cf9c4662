"""Lists what forward() depends on besides tensors: the modules in a model, and the plain
attributes that it reads of them.

The captured graph stands for forward() while these are unchanged. ModelNew checks that in
each call (compiler/parts_source.cpp), by the texts that are written here.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterable
from typing import Any

import torch

from weft.problem.problem import MODULE_NAME

ATOMS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type(...),
    torch.dtype,
    torch.device,
    torch.Size,
)
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_SETTINGS = ATOMS + _NAMED + (enum.Enum, torch.layout, torch.memory_format)
#: Every module has these, and no user of one; but the mode may be set, and
#: forward() replaced.
_OF_MODULES = (set(dir(torch.nn.Module)) | set(vars(torch.nn.Module()))) - {"training", "forward"}
#: Of one value. What can change in itself is written out at each call.
_LENGTH_MAX = 1000


def of(model: torch.nn.Module, read: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    """The graph's `parts` (docs/reference/graph.md). `read`: (id of a module, attribute)
    of all that a call looked up and did not bind."""
    names: dict[int, set[str]] = {}
    for key, name in read:
        names.setdefault(key, set()).add(name)
    # Under each of its paths: another module may be put in one of them.
    return [
        _part(path, module, names.get(id(module), set()) - _OF_MODULES)
        for path, module in model.named_modules(remove_duplicate=False)
    ]


def _part(path: str, module: torch.nn.Module, names: set[str]) -> dict[str, Any]:
    if not path:  # ModelNew has its own forward()
        names = names - {"forward"}
    used = sorted(name for name in names if not name.startswith("__"))
    own = vars(module)
    tables = {**module._modules, **module._buffers, **module._parameters}
    return {
        "module": path,
        "class": text_of(type(module)),
        "hooks": [
            _hook_text(hook)
            for hooks in (module._forward_pre_hooks, module._forward_hooks)
            for hook in hooks.values()
        ]
        if path
        else [],
        "size": len(module._modules),
        "settings": {
            name: text_of(own[name]) for name in used if name in own and _is_setting(own[name])
        },
        "absent": [name for name in used if name not in own and name not in tables],
        "empty": [
            name
            for name in used
            if name not in own and tables.get(name) is None and not hasattr(type(module), name)
        ],
    }


def text_of(value: Any) -> str:
    """What stands for a setting, in every process."""
    if isinstance(value, type):
        own = value.__module__ == MODULE_NAME
        return ("" if own else value.__module__) + "." + value.__qualname__
    return getattr(value, "__name__", None) or repr(value)


def _hook_text(hook: Any) -> str:
    return getattr(hook, "__name__", None) or text_of(type(hook))


def _is_setting(value: object) -> bool:
    return _is_plain(value) and len(text_of(value)) <= _LENGTH_MAX


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if _is_record(value):
        return all(map(_is_plain, vars(value).values()))
    return isinstance(value, _SETTINGS)


def _is_record(value: object) -> bool:
    """Whose repr() tells all of it, and whose hash() is no other's than of what
    it holds."""
    if isinstance(value, types.SimpleNamespace):
        return True
    how = getattr(type(value), "__dataclass_params__", None)
    return (
        dataclasses.is_dataclass(value)
        and how is not None
        and bool(how.repr and how.eq)
        and hasattr(value, "__dict__")
    )
