"""Turns plain tensors that a model's methods change into buffers.

A recurrent model may hold its hidden state as a plain tensor, and bind another
to that name in each call. Such tensors become buffers here, so that they are
captured, restored and compared as buffers are. The problem's source shows which
attributes these are: a run of forward() would show only one path through it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch


def adopt(source: bytes | str, module_name: str, model: torch.nn.Module) -> list[str]:
    """Makes buffers of the plain tensors that the model's methods change, as `source`,
    the text of the module of that name, says; the names of these buffers."""
    changed = changed_attributes(source)
    found = []
    for path, module in model.named_modules():
        for name in sorted(_changed_by(type(module), changed, module_name)):
            full = joined(path, name)
            if adopt_named(model, full):
                found.append(full)
    return found


def adopt_named(model: torch.nn.Module, full: str) -> bool:
    """Makes a buffer of the plain tensor of that name; whether there is one."""
    path, _, name = full.rpartition(".")
    try:
        module = model.get_submodule(path)
    except AttributeError:
        return False
    value = vars(module).get(name)
    # A tensor that is empty now will get another shape; an attribute of the class
    # would hide the buffer.
    if type(value) is not torch.Tensor or value.numel() == 0 or hasattr(type(module), name):
        return False
    delattr(module, name)
    # A copy: two names of one tensor become two buffers.
    module.register_buffer(name, value.detach().clone(), persistent=False)
    return True


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _changed_by(kind: type, changed: dict[str, set[str]], module_name: str) -> set[str]:
    """By the methods of a class, and of what it derives from in the problem."""
    return set().union(
        *(changed.get(base.__name__, ()) for base in kind.__mro__ if base.__module__ == module_name)
    )


def changed_attributes(source: bytes | str) -> dict[str, set[str]]:
    """{class: names} of attributes that methods bind or write which forward()
    may come to, by their names: not what __init__ alone calls."""
    methods = [
        (kind.name, method)
        for kind in ast.walk(ast.parse(source))
        if isinstance(kind, ast.ClassDef)
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and method.args.args
    ]
    reached = {"forward"}
    found: dict[str, set[str]] = {}
    while True:
        called = {
            name for _, method in methods if method.name in reached for name in _called_in(method)
        } - {"__init__"}
        if called <= reached:
            break
        reached |= called
    for kind, method in methods:
        if method.name in reached:
            found.setdefault(kind, set()).update(_written_in(method))
    return found


def _called_in(method: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr


def _written_in(method: ast.FunctionDef) -> Iterator[str]:
    self = method.args.args[0].arg
    for node in ast.walk(method):
        for written in map(whole, written_by(node)):
            if (
                isinstance(written, ast.Attribute)
                and isinstance(written.value, ast.Name)
                and written.value.id == self
            ):
                yield written.attr


def whole(written: ast.expr) -> ast.expr:
    """self.cache of self.cache[:, step] = ..., and of self.cache.data.add_(1)"""
    while isinstance(written, (ast.Subscript, ast.Starred)) or (
        isinstance(written, ast.Attribute) and written.attr == "data"
    ):
        written = written.value
    return written


def written_by(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose values that node binds or writes into."""
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.Call):
        targets = [word.value for word in node.keywords if word.arg == "out"]
        called = node.func  # self.count.add_(1)
        if (
            isinstance(called, ast.Attribute)
            and called.attr.endswith("_")
            and not called.attr.endswith("__")
        ):
            targets.append(called.value)
    else:
        return
    while targets:
        target = targets.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            targets.extend(target.elts)
        else:
            yield target
