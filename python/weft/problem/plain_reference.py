"""Whether a reference that a language model wrote is plain: it imports PyTorch and math,
and computes.

    python -m weft.problem.plain_reference FILE…

prints a JSON line for each file: {"fault": "", or what is not plain}. This is a first
filter, and the reason that the model gets. It is not what protects the user: the reference
runs in the sandbox only.
"""

import ast
import json
import math
import sys
from dataclasses import dataclass, field
from typing import Any, Iterator

SOURCE_BYTES_MAX = 256 << 10

#: What a file may import, and under which names' attributes.
_MODULES = frozenset({"torch", "torch.nn", "torch.nn.functional", "math"})
_TYPING = frozenset({"typing", "__future__", "collections.abc"})
_BUILTINS = frozenset(
    {
        "abs",
        "all",
        "any",
        "bool",
        "dict",
        "enumerate",
        "float",
        "int",
        "isinstance",
        "len",
        "list",
        "max",
        "min",
        "range",
        "reversed",
        "round",
        "set",
        "slice",
        "sorted",
        "str",
        "sum",
        "super",
        "tuple",
        "zip",
        "object",
        "staticmethod",
        "property",
        "ValueError",
        "TypeError",
        "RuntimeError",
        "AssertionError",
        "NotImplementedError",
    }
)
_DUNDERS = frozenset({"__init__", "__call__", "__name__"})
#: Of PyTorch's own functions, those that do more than compute.
_NOT_PLAIN = frozenset(
    {
        "from_file",
        "frombuffer",
        "set_",
        "map_",
        "map2_",
        "apply_",
        "share_memory_",
        "register_hook",
        "apply",
    }
)
#: If a file binds one of these names anywhere, the name may still mean Python's own
#: elsewhere in the file.
_NEVER_BOUND = frozenset(
    {
        "eval",
        "exec",
        "compile",
        "open",
        "getattr",
        "setattr",
        "delattr",
        "vars",
        "globals",
        "locals",
        "dir",
        "breakpoint",
        "memoryview",
        "help",
        "exit",
        "quit",
        "type",
    }
)
#: Refused even if the file defines an attribute of that name: these reach files,
#: frames, or attributes that a text names.
_NEVER_READ = frozenset(
    {
        "from_file",
        "frombuffer",
        "share_memory_",
        "format",
        "format_map",
        "numpy",
        "tofile",
        "dump",
        "ctypes",
        "untyped_storage",
        "gi_frame",
        "gi_code",
        "gi_yieldfrom",
        "f_back",
        "f_builtins",
        "f_code",
        "f_globals",
        "f_locals",
        "tb_frame",
        "cr_frame",
        "ag_frame",
    }
)
_TORCH_PARTS = frozenset(
    {
        "nn",
        "Tensor",
        "Size",
        "device",
        "dtype",
        "Generator",
        "no_grad",
        "inference_mode",
        "enable_grad",
        "manual_seed",
        "fft",
        "linalg",
        "special",
        "inf",
        "nan",
        "pi",
        "e",
        "finfo",
        "iinfo",
        "FloatTensor",
        "LongTensor",
        "IntTensor",
        "BoolTensor",
        "get_default_dtype",
        "is_tensor",
        "broadcast_shapes",
    }
)
_STATEMENTS = (
    ast.Module,
    ast.FunctionDef,
    ast.ClassDef,
    ast.Return,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.For,
    ast.While,
    ast.If,
    ast.With,
    ast.Expr,
    ast.Pass,
    ast.Break,
    ast.Continue,
    ast.Raise,
    ast.Assert,
    ast.Import,
    ast.ImportFrom,
    ast.Delete,
)
_REFUSED_EXPRESSIONS = (ast.Await, ast.Yield, ast.YieldFrom)


class NotPlain(Exception):
    """The text says what the file does that a reference does not, and where."""


@dataclass
class _Names:
    """What the file's names stand for."""

    #: "F": "torch.nn.functional"
    modules: dict[str, str] = field(default_factory=dict)
    #: Assigned, defined, or imported from a module.
    own: set[str] = field(default_factory=set)
    #: Assigned as self.NAME, or defined in a class.
    attributes: set[str] = field(default_factory=set)


def fault_of(source: str) -> str:
    """Empty, or why the file is no plain reference."""
    try:
        _check(source)
    except NotPlain as error:
        return str(error)
    return ""


def _check(source: str) -> None:
    if len(source.encode("utf-8", "replace")) > SOURCE_BYTES_MAX:
        raise NotPlain(f"the file has more than {SOURCE_BYTES_MAX >> 10} KiB")
    try:
        tree = ast.parse(source)
        nodes = list(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotPlain(f"the file is no Python: {error}") from None
    names = _Names()
    for node in nodes:
        _collect(node, names)
    # By line, and in a line the inner part of an attribute first.
    nodes.reverse()
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        _check_node(node, names, is_inner=id(node) in inner)


def _collect(node: ast.AST, names: _Names) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name not in _MODULES:
                raise _refused(node, f"imports {alias.name}")
            if alias.asname:
                names.modules[alias.asname] = alias.name
            else:
                names.modules[alias.name.partition(".")[0]] = alias.name.partition(".")[0]
    elif isinstance(node, ast.ImportFrom):
        _collect_from(node, names)
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        _bind(node, node.name, names)
        names.attributes.add(node.name)
    elif isinstance(node, ast.arg):
        _bind(node, node.arg, names)
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        _bind(node, node.id, names)
        names.attributes.add(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        names.attributes.add(node.attr)
    elif isinstance(node, ast.Call):
        # self.register_buffer("name", …), self.register_parameter("name", …)
        for word in node.args[:1]:
            if (
                isinstance(node.func, ast.Attribute)
                and node.func.attr.startswith("register_")
                and isinstance(word, ast.Constant)
                and isinstance(word.value, str)
            ):
                names.attributes.add(word.value)


def _bind(node: ast.AST, name: str, names: _Names) -> None:
    if name in _NEVER_BOUND:
        raise _refused(node, f"names {name}")
    names.own.add(name)


def _collect_from(node: ast.ImportFrom, names: _Names) -> None:
    module = node.module or ""
    for one in node.names:
        name = one.asname or one.name
        whole = f"{module}.{one.name}"
        if node.level or one.name == "*":
            raise _refused(node, "imports by a star or a dot")
        if module in _TYPING and _is_type(module, one.name):
            _bind(node, name, names)
        elif whole in _MODULES:
            names.modules[name] = whole
        elif module in _MODULES and is_plain_part(module, one.name):
            _bind(node, name, names)
        else:
            raise _refused(node, f"imports {whole}")


def _is_type(module: str, name: str) -> bool:
    """Whether it is a type for annotations. Such modules also contain sys, and functions
    that evaluate texts."""
    import collections.abc
    import typing

    if module == "__future__":
        return name == "annotations"
    owner = typing if module == "typing" else collections.abc
    return name in owner.__all__ and name[0].isupper()


def _check_node(node: ast.AST, names: _Names, is_inner: bool) -> None:
    if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
        raise _refused(node, f"has the statement {type(node).__name__.lower()}")
    if isinstance(node, _REFUSED_EXPRESSIONS):
        raise _refused(node, f"has a {type(node).__name__.lower()}")
    if isinstance(node, ast.Name):
        _check_name(node, names, is_inner)
    elif isinstance(node, ast.Attribute):
        _check_attribute(node, names, is_inner)
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.arg, ast.keyword)):
        name = node.arg if isinstance(node, (ast.arg, ast.keyword)) else node.name
        if name is not None and _is_hidden(name):
            raise _refused(node, f"names {name}")


def _check_name(node: ast.Name, names: _Names, is_inner: bool) -> None:
    if node.id in names.modules:
        if not is_inner or not isinstance(node.ctx, ast.Load):
            raise _refused(node, f"uses the module {node.id} as a value")
    elif isinstance(node.ctx, ast.Load):
        if node.id not in names.own and node.id not in _BUILTINS | _DUNDERS:
            raise _refused(node, f"names {node.id}")
    elif _is_hidden(node.id):
        raise _refused(node, f"names {node.id}")


def _check_attribute(node: ast.Attribute, names: _Names, is_inner: bool) -> None:
    module = _module_of(node.value, names)
    if module is None:
        is_known = node.attr in names.attributes or is_plain_method(node.attr)
        if not is_known or node.attr in _NEVER_READ or _is_hidden(node.attr):
            raise _refused(node, f"uses the attribute {node.attr}")
        return
    if not isinstance(node.ctx, ast.Load):
        raise _refused(node, f"changes {module}.{node.attr}")
    whole = f"{module}.{node.attr}"
    if whole in _MODULES and is_inner:
        return
    if not is_plain_part(module, node.attr):
        raise _refused(node, f"uses {whole}")


def _module_of(node: ast.expr, names: _Names) -> str | None:
    """The module that the expression stands for."""
    if isinstance(node, ast.Name):
        return names.modules.get(node.id)
    if isinstance(node, ast.Attribute):
        above = _module_of(node.value, names)
        whole = f"{above}.{node.attr}"
        if above is not None and (whole in _MODULES or whole in _PART_MODULES):
            return whole
    return None


_PART_MODULES = frozenset({"torch.fft", "torch.linalg", "torch.special", "torch.nn.init"})


def is_plain_part(module: str, name: str) -> bool:
    """Whether that name of PyTorch's or math's is one that computes."""
    import torch

    if name.startswith("_") or name in _NOT_PLAIN:
        return False
    if module == "math":
        return hasattr(math, name)
    owner: Any = torch
    for part in module.split(".")[1:]:
        owner = getattr(owner, part, None)
    value = getattr(owner, name, None)
    if module == "torch":
        is_value = isinstance(value, (torch.dtype, torch.layout, torch.memory_format))
        is_operator = hasattr(torch._C._VariableFunctions, name)
        return is_value or is_operator or name in _TORCH_PARTS
    if module == "torch.nn":
        is_layer = isinstance(value, type) and issubclass(value, torch.nn.Module)
        return is_layer or name in ("Parameter", "functional", "init")
    if module == "torch.nn.functional" or module in _PART_MODULES:
        return callable(value) and name.islower()
    return False


def is_plain_method(name: str) -> bool:
    """Whether tensors, modules, lists or numbers have that method, or property."""
    import torch

    if name.startswith("_") or name in _NOT_PLAIN | {"format", "format_map"}:
        return False
    owners = (
        torch.Tensor,
        torch.nn.Module,
        torch.Size,
        torch.nn.ModuleList,
        dict,
        list,
        float,
        str,
        torch.finfo,
        torch.Generator,
        slice,
    )
    return name in ("values", "indices", "training") or any(
        hasattr(owner, name) for owner in owners
    )


def _is_hidden(name: str) -> bool:
    return name.startswith("__") and name not in _DUNDERS


def _refused(node: ast.AST, what: str) -> NotPlain:
    line = getattr(node, "lineno", 0)
    return NotPlain(f"line {line} {what}: a reference imports torch and math, and computes")


def faults(paths: list[str]) -> Iterator[str]:
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield fault_of(file.read(SOURCE_BYTES_MAX + 1))


if __name__ == "__main__":
    for fault in faults(sys.argv[1:]):
        print(json.dumps({"fault": fault[:500]}))
