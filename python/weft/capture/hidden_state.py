"""Finds what forward() remembers outside of tensors: a counter, a flag, a table that its
first call makes.

A captured graph is one path through forward(), and stands for every call. That is correct
if everything that a call reads before binding it has the same value at its end. Then the
next call begins alike and takes the same path, and so do all later calls. So one call is
watched. Tensors that are buffers or parameters are not looked at here: the graph changes
them as forward() does.
"""

from __future__ import annotations

import ast
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from weft.problem.attribute_state import nodes_of_calls
from weft.capture.model_attributes import ATOMS as _ATOMS
from weft.problem.problem import MODULE_NAME, Problem, ProblemError

#: Every module has these, and no user of one; but the mode forward() may set.
_OF_MODULES = frozenset(vars(torch.nn.Module())) - {"training"}
#: Of one value in a message.
_LENGTH_MAX = 60


@contextlib.contextmanager
def refused(problem: Problem, model: torch.nn.Module) -> Iterator[set[tuple[int, str]]]:
    """Around a call of the model: ProblemError if a later one could tell that
    it was made. Gives the set of (id of a module, attribute) that the call read
    and did not bind; it is filled when the call was made."""
    modules = dict(model.named_modules())
    before = {path: _attributes(module) for path, module in modules.items()}
    names = _names_of(problem)
    left_alone: set[tuple[int, str]] = set()
    with _recorded(modules.values()) as (read, bound):
        yield left_alone
    left_alone |= read - bound
    for path, module in modules.items():
        now = _attributes(module)
        for name in sorted(before[path] | now):
            if (id(module), name) in read:
                _compare(
                    problem,
                    f"{path}.{name}".lstrip("."),
                    "attr",
                    before[path].get(name),
                    now.get(name),
                    _is_of_file(type(module)),
                )
    now = _names_of(problem)
    for name in sorted(names | now):
        _compare(
            problem, name, "attr" if "." in name else "id", names.get(name), now.get(name), True
        )


def _compare(
    problem: Problem, full: str, kind: str, before: _Now | None, now: _Now | None, is_of_file: bool
) -> None:
    """`is_of_file`: nobody reads it but the file's own code."""
    if before == now:
        return
    line = _line_of_use(problem, full.rpartition(".")[2], kind)
    if line is None and is_of_file:  # counted, and never looked at
        return
    old, new = str(before or "nothing"), str(now or "nothing")
    how = f"changed it from {old} to {new}" if old != new else f"changed what is in {new}"
    raise ProblemError(
        "unsupported",
        f"Model.forward reads {full}, which its last call may have changed (the "
        f"first {how}), and what is captured does the same in every "
        "call: set it in __init__, or keep what changes in a buffer",
        file=problem.name,
        line=line or 0,
    )


def _is_of_file(kind: type) -> bool:
    """Whether that class of module is all the file's own."""
    return all(
        base.__module__ == MODULE_NAME
        for base in kind.__mro__
        if base not in (torch.nn.Module, object)
    )


def _line_of_use(problem: Problem, name: str, kind: str) -> int | None:
    """Where that name (of a syntax node's `attr` or `id`) is read, but for its
    own `+=` and in __init__. None: nowhere, although it is bound; 0: it is not
    seen where."""
    is_bound = False
    for node in nodes_of_calls(problem):
        if isinstance(node, ast.Constant) and node.value == name:
            return node.lineno  # getattr(self, "name")
        if name == getattr(node, kind, None):
            if isinstance(getattr(node, "ctx"), ast.Load):
                return int(getattr(node, "lineno"))
            is_bound = True
    return None if is_bound else 0


@contextlib.contextmanager
def _recorded(
    modules: Iterable[torch.nn.Module],
) -> Iterator[tuple[set[tuple[int, str]], set[tuple[int, str]]]]:
    """Gives two sets of (id of a module, attribute), which fill: what is read
    before it is bound, and what is bound."""
    read: set[tuple[int, str]] = set()
    bound: set[tuple[int, str]] = set()

    def methods_of(kind: type) -> tuple[Callable[..., Any], Callable[..., Any]]:
        get: Callable[..., Any] = kind.__getattribute__
        put: Callable[..., Any] = kind.__setattr__

        def __getattribute__(self: object, name: str) -> Any:
            key = id(self), name
            if key not in bound:
                read.add(key)
            return get(self, name)

        def __setattr__(self: object, name: str, value: object) -> None:
            bound.add((id(self), name))
            put(self, name, value)

        return __getattribute__, __setattr__

    with contextlib.ExitStack() as patches:
        for kind in {type(module) for module in modules}:
            if issubclass(kind, torch.jit.ScriptModule):
                continue  # refused by name
            for method in methods_of(kind):
                patches.enter_context(_patched(kind, method))
        yield read, bound


@contextlib.contextmanager
def _patched(kind: type, method: Callable[..., Any]) -> Iterator[None]:
    name = method.__name__
    own = vars(kind).get(name)
    setattr(kind, name, method)
    try:
        yield
    finally:
        if own is None:
            delattr(kind, name)
        else:
            setattr(kind, name, own)


def _attributes(module: torch.nn.Module) -> dict[str, _Now]:
    """{name: value} of the plain ones."""
    return {name: _Now(value) for name, value in vars(module).items() if name not in _OF_MODULES}


def _names_of(problem: Problem) -> dict[str, _Now]:
    """The same of the problem's file, and of the classes in it."""
    names = vars(problem.module)
    found = {name: _Now(value) for name, value in names.items() if not name.startswith("__")}
    for kind in names.values():
        if isinstance(kind, type) and kind.__module__ == MODULE_NAME:
            found.update(
                (f"{kind.__name__}.{name}", _Now(value))
                for name, value in vars(kind).items()
                if not name.startswith("__")
            )
    return found


class _Now:
    """A value as it is now; equal to what no call can tell from it."""

    def __init__(self, value: object, within: tuple[int, ...] = ()) -> None:
        self._value = value  # held: nothing else takes its place in memory
        self._parts = self._parts_of(value, within)

    @staticmethod
    def _parts_of(value: object, within: tuple[int, ...]) -> list[Any]:
        if isinstance(value, _ATOMS):
            return [repr(value)]
        if id(value) not in within:
            within = (*within, id(value))
            if isinstance(value, dict):
                return [_Now(part, within) for item in value.items() for part in item]
            if isinstance(value, (list, tuple, set, frozenset, deque)):
                return [_Now(part, within) for part in value]
            if _is_plain_object(value):
                return [_Now(vars(value), within)]
        if isinstance(value, torch.Tensor) and not value.is_inference():
            return [id(value), value._version]
        return [id(value)]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Now)
            and self._parts == other._parts
            and type(self._value) is type(other._value)
        )

    def __str__(self) -> str:
        if isinstance(self._value, _ATOMS):
            return self._parts[0][:_LENGTH_MAX]
        return f"a {type(self._value).__name__}"


def _is_plain_object(value: object) -> bool:
    """Of one of the file's own classes, which holds more than its identity."""
    return (
        type(value).__module__ == MODULE_NAME
        and hasattr(value, "__dict__")
        and not isinstance(value, (type, torch.nn.Module, torch.Tensor))
    )
