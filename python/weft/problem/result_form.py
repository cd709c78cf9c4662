"""The form of what a call of a module returns: all but the values."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree

from weft.problem.problem import MODULE_NAME

NEW_MODULE = "weft_model_new"
#: By the class itself: a candidate may give its own class any name.
_TENSOR_TYPES = {torch.Tensor: "Tensor", torch.nn.Parameter: "Parameter"}


@dataclasses.dataclass(frozen=True)
class OutputForm:
    """One tensor of a result."""

    type: str
    dtype: str
    shape: list[int]
    stride: list[int]
    aliases: list[int]  #: whose memory it is, by the numbers of describe()'s owners


@dataclasses.dataclass(frozen=True)
class ResultForm:
    """A result, and the arguments after the call."""

    structure: str
    outputs: list[OutputForm]
    others: list[str]  #: results that are no tensors
    kept: list[int]  #: which of the state has an argument's memory
    moved: list[int]  #: which arguments lie elsewhere than before

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def tensor_leaves(result: Any) -> list[torch.Tensor]:
    leaves, _ = pytree.tree_flatten(result)
    return [leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def describe(
    result: Any,
    arguments: list[torch.Tensor],
    lain: list[Any],
    named: list[tuple[str, torch.Tensor]],
    state_after: list[torch.Tensor],
) -> ResultForm:
    """The ResultForm of a call: structure, and each tensor's type, layout and whose memory it is: an
    argument's, the state's before or after, or an earlier result's. Which of
    the state has an argument's; and which argument does not `lie` as it did
    before the call, which `lain` says."""
    leaves, treespec = pytree.tree_flatten(result)
    outputs: list[OutputForm] = []
    others: list[str] = []
    given = [[_span(t)] for t in arguments]
    after = [_span(t) for t in state_after]
    owners = given + [[_span(t), now] for (_, t), now in zip(named, after)]
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            others.append(repr(leaf)[:200])
            continue
        span = _span(leaf)
        outputs.append(
            OutputForm(
                type=_type_of(leaf),
                dtype=str(leaf.dtype).removeprefix("torch."),
                shape=list(leaf.shape),
                stride=plain_stride(leaf),
                aliases=_sharing(span, owners),
            )
        )
        owners.append([span])
    # A class that the problem defines is another class in each file.
    nesting = str(treespec).replace(f"'{NEW_MODULE}.", f"'{MODULE_NAME}.")
    nesting += str(list(field_names(result)))
    shape = hashlib.sha256(nesting.encode()).hexdigest()[:16]
    kept = [i for i, span in enumerate(after) if _sharing(span, given)]
    moved = [i for i, pair in enumerate(zip(map(lie, arguments), lain)) if pair[0] != pair[1]]
    return ResultForm(shape, outputs, others, kept, moved)


def lie(tensor: torch.Tensor) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Where its elements are."""
    return _span(tensor), tensor.stride()


def _type_of(tensor: torch.Tensor) -> str:
    """With what is left to whoever reads it: a plain tensor has values."""
    name = _TENSOR_TYPES.get(type(tensor), "another class")
    lazy = [
        f" with a {what} bit"
        for what, is_set in (("negative", tensor.is_neg()), ("conjugate", tensor.is_conj()))
        if is_set
    ]
    return name + "".join(lazy)


def field_names(result: Any) -> Iterator[tuple[str, ...]]:
    """The fields of named tuples in it, in their order."""
    if hasattr(result, "_fields"):
        yield result._fields
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from field_names(part)


def fits(form: ResultForm, wants: list[OutputForm]) -> bool:
    """Whether every output has the dtype and shape that memory is kept for."""
    found = [(one.dtype, one.shape) for one in form.outputs]
    return found == [(one.dtype, one.shape) for one in wants]


def plain_stride(tensor: torch.Tensor) -> list[int]:
    """Strides that matter: those of dimensions longer than one."""
    if tensor.numel() == 0:
        return []
    return [s for n, s in zip(tensor.shape, tensor.stride()) if n > 1]


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses from its first byte to its last."""
    if tensor.numel() == 0:
        return 0, 0
    steps = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    first = tensor.data_ptr()
    return first, first + (steps + 1) * tensor.itemsize


def _sharing(span: tuple[int, int], owners: list[list[tuple[int, int]]]) -> list[int]:
    """Which owners, each of some spans, it overlaps."""
    begin, end = span
    return [i for i, spans in enumerate(owners) if any(begin < b and a < end for a, b in spans)]
