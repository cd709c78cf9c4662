"""The structure of a call's arguments and results.

Containers are PyTorch's pytrees. A plain Python object that is not registered
there, such as a key-value cache, is described by its class and attributes, as
Dynamo describes it. So torch.export sees tensors alone.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.backend.graphs.problem_source import Unsupported

_NOT_PLAIN = (
    torch.Tensor,
    torch.nn.Module,
    torch.Generator,
    type,
    enum.Enum,
    str,
    bytes,
    int,
    float,
    complex,
    dict,
    list,
    tuple,
    set,
    frozenset,
    BaseException,
    types.ModuleType,
    types.FunctionType,
    types.MethodType,
)
#: Classes of the standard library whose objects hold what their user puts there.
_OPEN_CLASSES = frozenset(
    {
        ("types", "SimpleNamespace"),
        ("argparse", "Namespace"),
        ("collections", "UserDict"),
        ("collections", "UserList"),
    }
)
_VALUES = (int, float, complex, str, bytes, torch.device, torch.Size, slice, range)


@dataclasses.dataclass(frozen=True)
class ObjectNode:
    """A plain object within a Structure."""

    kind: type | None  #: its class; None: it is an argument's object
    argument: int = -1  #: number of that object among those of the arguments
    attributes: "Structure | None" = None


class Structure:
    """A pytree whose leaves may be plain objects. Immutable."""

    def __init__(self, spec: pytree.TreeSpec, objects: tuple[tuple[int, ObjectNode], ...]) -> None:
        self.spec = spec
        self.objects = objects  #: (number of the pytree's leaf, the object there)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Structure)
            and self.spec == other.spec
            and self.objects == other.objects
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """With an example of the pytree, whose classes pickle knows."""
        example = pytree.tree_unflatten(range(self.spec.num_leaves), self.spec)
        return _structure_like, (example, self.objects)


def _structure_like(example: Any, objects: tuple[tuple[int, ObjectNode], ...]) -> Structure:
    return Structure(pytree.tree_structure(example), objects)


@dataclasses.dataclass
class Flattened:
    """A tree's leaves, their structure, and the plain objects, outer ones first."""

    leaves: list[Any]
    structure: Structure
    objects: list[Any]


def flatten(tree: Any, known: Sequence[Any] = ()) -> Flattened:
    """Takes a tree apart. `known`: objects that are referred to by number.

    Unsupported if an object is there twice, or contains itself."""
    leaves: list[Any] = []
    objects: list[Any] = []
    numbers = {id(one): i for i, one in enumerate(known)}

    def structure_of(tree: Any) -> Structure:
        found, spec = pytree.tree_flatten(tree)
        nodes = []
        for position, leaf in enumerate(found):
            if not is_plain_object(leaf):
                leaves.append(leaf)
            elif id(leaf) in numbers:
                nodes.append((position, ObjectNode(None, numbers[id(leaf)])))
            elif any(leaf is one for one in objects):
                raise Unsupported(
                    f"a {type(leaf).__name__} is at two places in its arguments or results"
                )
            else:
                objects.append(leaf)
                nodes.append((position, ObjectNode(type(leaf), -1, structure_of(vars(leaf)))))
        return Structure(spec, tuple(nodes))

    return Flattened(leaves, structure_of(tree), objects)


def restore(
    structure: Structure,
    leaves: Iterable[Any],
    known: Sequence[Any] = (),
    made: list[Any] | None = None,
) -> Any:
    """The tree. `known`: the objects that it refers to; `made` gets the new ones, in
    the order of flatten()."""
    return _restored(structure, iter(leaves), known, [] if made is None else made)


def _restored(
    structure: Structure, leaves: Iterator[Any], known: Sequence[Any], made: list[Any]
) -> Any:
    if not structure.objects:
        count = structure.spec.num_leaves
        return pytree.tree_unflatten([next(leaves) for _ in range(count)], structure.spec)
    nodes = dict(structure.objects)
    found = []
    for position in range(structure.spec.num_leaves):
        node = nodes.get(position)
        if node is None:
            found.append(next(leaves))
        elif node.kind is None:
            found.append(known[node.argument])
        else:
            kind: Any = node.kind
            one = kind.__new__(kind)
            made.append(one)
            assert node.attributes is not None
            one.__dict__.update(_restored(node.attributes, leaves, known, made))
            found.append(one)
    return pytree.tree_unflatten(found, structure.spec)


def is_plain_object(value: Any) -> bool:
    """True for an object of a user's class that is known by its attributes."""
    kind: Any = type(value)  # classes are hashable
    return _is_plain_class(kind)


@functools.lru_cache(1024)
def _is_plain_class(kind: type) -> bool:
    module = getattr(kind, "__module__", "").partition(".")[0]
    if (kind.__module__, kind.__name__) in _OPEN_CLASSES:
        return True
    return not (
        issubclass(kind, _NOT_PLAIN)
        or kind in pytree.SUPPORTED_NODES
        or module in sys.stdlib_module_names
        or module in ("torch", "numpy")
        or kind.__dictoffset__ == 0
        or any(vars(base).get("__slots__") for base in kind.__mro__)
    )


def is_same_value(value: Any, then: Any) -> bool:
    """True if a leaf that is no tensor is what it was. 0.0 is not -0.0."""
    return value is then or (
        type(value) is type(then)
        and isinstance(value, _VALUES)
        and value == then
        and (not isinstance(value, (float, complex)) or repr(value) == repr(then))
    )
