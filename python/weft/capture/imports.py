"""Whether a graph that was captured once may be taken again for the same text.

It may where the file takes nothing from elsewhere but PyTorch and modules that
come with Python: of any other, a new version would give another graph.
"""

from __future__ import annotations

import ast

KNOWN = frozenset(
    (
        "torch",
        "math",
        "typing",
        "collections",
        "functools",
        "abc",
        "itertools",
        "dataclasses",
        "enum",
        "__future__",
        "copy",
        "operator",
        "random",
        "time",
        "warnings",
    )
)
#: Import what no statement names, or run a text.
_HIDDEN = frozenset(("__import__", "exec", "eval"))


def takes_little(text: str) -> bool:
    """False for what is no Python, too."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_known(node) for node in ast.walk(tree))


def _is_known(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return all(_top(alias.name) in KNOWN for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and _top(node.module or "") in KNOWN
    return not (isinstance(node, ast.Name) and node.id in _HIDDEN)


def _top(module: str) -> str:
    return module.partition(".")[0]
