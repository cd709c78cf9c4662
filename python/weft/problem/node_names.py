"""The nodes that a graph's call uses (docs/reference/graph.md). Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def used_by(node: dict[str, Any]) -> Iterator[str]:
    """Names of the nodes that are arguments of that one, at any depth."""
    yield from _names_in([node.get("args") or [], list((node.get("kwargs") or {}).values())])


def _names_in(args: Iterable[Any]) -> Iterator[str]:
    for arg in args:
        if isinstance(arg, list):
            yield from _names_in(arg)
        elif isinstance(arg, dict) and "node" in arg:
            yield arg["node"]
