"""A module in other objects over the same tensors: who captures it binds them
otherwise for a moment, and leaves in them what forward() leaves."""

import functools
import operator

import torch
from torch.utils import _pytree as pytree

from weft.backend.graph_source import Unsupported

#: A call of the root calls these itself, around what is captured.
_ROOTS_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                "_backward_pre_hooks")
_TABLES = ("_parameters", "_buffers", "_modules")
#: What is the same where it is equal.
_VALUES = (int, float, complex, str, bytes, torch.device, torch.dtype, torch.Size)
#: What recurrent layers have of their parameters, which the exporter binds.
_MIRRORS = ("_flat_weights", "_flat_weight_refs")
#: Where the twin is another one by design.
_OF_THE_ROOT = (*_ROOTS_HOOKS, "forward", "_weft")


def twin_of(module, kind):
    """The module as one of the class `kind`, without the hooks of its own call."""
    made = _twin(module, kind, {}, {})
    for name in _ROOTS_HOOKS:
        made.__dict__[name] = type(module.__dict__[name])()
    return made


def _twin(module, kind, made, copies):
    if id(module) in made:
        return made[id(module)]
    twin = made[id(module)] = object.__new__(kind)
    twin.__dict__.update(
        (name, _copy(value, copies)) for name, value in vars(module).items())
    for table in _TABLES:
        twin.__dict__[table] = dict(module.__dict__[table])
    for name, part in module._modules.items():
        if part is not None:
            twin._modules[name] = _twin(part, type(part), made, copies)
    return twin


def _copy(value, copies):
    """The value, with containers of its own."""
    if type(value) not in (list, dict, set):
        return value
    if id(value) not in copies:
        made = copies[id(value)] = type(value)()
        if type(value) is dict:
            made.update((k, _copy(v, copies)) for k, v in value.items())
        elif type(value) is list:
            made.extend(_copy(v, copies) for v in value)
        else:
            made.update(value)
    return copies[id(value)]


class Watched:
    """Looks, at the end of each of the twin's calls, what it has changed that is
    no number in a tensor: of the module, which the exporter puts back, of its
    surroundings, and of what it was given. Meanwhile other tensors stand in the
    tables."""

    def __init__(self, twin, module, watch):
        self._changed = ""  # an attribute's path
        self._watch = watch
        forward = twin.forward

        @functools.wraps(forward)
        def watched(*args, **kwargs):
            given = pytree.tree_flatten((args, kwargs))
            with watch.within():
                result = forward(*args, **kwargs)
            self._changed = (self._changed or _changed(twin, module)
                             or _changed_of(given, args, kwargs))
            return result

        twin.__dict__["forward"] = watched

    def check(self):
        """Unsupported says what was changed."""
        if self._changed:
            raise Unsupported(f"the call changes the module itself ({self._changed})")
        if self._watch.fault:
            raise Unsupported(self._watch.fault)


def _changed_of(given, args, kwargs):
    """Of what a call was given, lists and dictionaries."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    is_as_before = structure == given[1] and all(map(operator.is_, leaves, given[0]))
    return "" if is_as_before else "an argument"


def _changed(twin, module, path="", seen=None):
    """Where something is not what it was, or ""."""
    seen = set() if seen is None else seen
    if id(module) in seen:
        return ""
    seen.add(id(module))
    now, then = dict(vars(twin)), dict(vars(module))
    if not path:
        for name in _OF_THE_ROOT:
            now.pop(name, None), then.pop(name, None)
    for name in {**then, **now}:
        if name in _TABLES or name in _MIRRORS:
            continue
        if name not in now or name not in then or not _is_alike(
                now[name], then[name]):
            return path + name
    for table in _TABLES:
        for name in {**then[table], **now[table]}:
            mine, its = now[table].get(name), then[table].get(name)
            if (mine is None) != (its is None):
                return path + name
            if table == "_modules" and mine is not None and (
                    found := _changed(mine, its, f"{path}{name}.", seen)):
                return found
    return ""


def _is_alike(copy, value, seen=()):
    """Whether it holds the very same objects. (Containers are copies, and of
    tensors the exporter tells.)"""
    if copy is value or id(value) in seen:
        return True
    if isinstance(copy, torch.Tensor) and isinstance(value, torch.Tensor):
        return True
    if type(copy) is not type(value):
        return False
    if isinstance(value, _VALUES):
        return copy == value
    if isinstance(value, set):
        return copy == value
    seen = (*seen, id(value))
    if isinstance(value, dict):
        return list(copy) == list(value) and all(
            _is_alike(copy[key], value[key], seen) for key in value)
    return isinstance(value, (list, tuple)) and len(copy) == len(value) and all(
        _is_alike(a, b, seen) for a, b in zip(copy, value))
