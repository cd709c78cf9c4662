"""Which elements of a wrong result are not what is expected: evidence for who
wrote it, no part of the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from weft.expect import error_sums, slices
from weft.problem.widen import FLOATING

if TYPE_CHECKING:
    from weft.expect.compare import Expected
    from weft.oracle.replies import Mismatch

#: More are no more help.
MOST = 8
#: Elements at once, on a device: evidence may not need much of its memory.
DEVICE_CHUNK = 1 << 22


def first(got: torch.Tensor, made: Expected) -> list[Mismatch]:
    """The first elements of `got` that are beyond the tolerance of the
    expectation `made`; where none is by itself, the farthest. Of each a
    dictionary of texts, as docs/reference/worker-protocol.md has it."""
    if got.shape != made.framework.shape or got.numel() == 0:
        return []
    got = got.contiguous()
    try:
        if got.dtype not in FLOATING:
            places = _unequal(got, made)
            return [_told(got, made.framework, made, place, "") for place in places]
        return [
            _told(got, made.truth, made, place, f"{error:.3g}")
            for place, error in _beyond(got, made)
        ]
    except RuntimeError:  # no room for it: the verdict stands without
        return []


def _unequal(got: torch.Tensor, made: Expected) -> list[int]:
    """Flat places, of integers and booleans."""
    wrong = _raw(got) != _raw(made.framework)
    if made.wide is not None:
        wrong &= _raw(got) != _raw(made.wide)
    return wrong.reshape(-1).nonzero()[:MOST].reshape(-1).tolist()


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    """What is neither 0 nor 1 in a boolean's byte is seen."""
    is_flag = tensor.dtype == torch.bool
    return tensor.contiguous().view(torch.uint8) if is_flag else tensor


def _beyond(got: torch.Tensor, made: Expected) -> list[tuple[int, float]]:
    """[(flat place, error)] of floating-point elements."""
    found = _first_by_tolerance(got, made)
    if found:
        return found
    elements = None
    if made.slices is not None:
        beyond = slices.hold(got, made.truth, made.framework, made.slices)
        elements = beyond.elements if beyond is not None else None
    return _farthest(got, made, elements)


def _first_by_tolerance(got: torch.Tensor, made: Expected) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    for offset, error in _errors(got, made):
        beyond = (~(error <= made.tolerance)).nonzero().reshape(-1)
        places = beyond[: MOST - len(found)].tolist()
        found += [(offset + place, float(error[place])) for place in places]
        if len(found) == MOST:
            break
    return found


def _farthest(
    got: torch.Tensor, made: Expected, elements: torch.Tensor | None
) -> list[tuple[int, float]]:
    """The largest errors, of those at the flat places `elements`, or of all."""
    if elements is not None:
        elements = elements.to(got.device)
    worst: list[tuple[int, float]] = []
    for offset, error in _errors(got, made, elements):
        values, places = error.topk(min(MOST, error.numel()))
        worst += zip((offset + places).tolist(), values.tolist())
        worst = sorted(worst, key=lambda one: -one[1])[:MOST]
    if elements is not None:
        worst = [(int(elements[place]), error) for place, error in worst]
    return [one for one in worst if one[1] > 0]


def _errors(
    got: torch.Tensor, made: Expected, elements: torch.Tensor | None = None
) -> Iterator[tuple[int, torch.Tensor]]:
    """(offset, errors) piece by piece."""
    tensors = [t.reshape(-1) for t in (got, made.truth, made.framework)]
    if elements is not None:
        tensors = [t[elements] for t in tensors]
    offset = 0
    size = DEVICE_CHUNK if got.is_cuda else None
    for x, truth, framework in error_sums.chunks(*tensors, size=size):
        yield offset, error_sums.of_each(x, truth, framework, made)
        offset += x.numel()


def _told(
    got: torch.Tensor, expected: torch.Tensor, made: Expected, place: int, error: str
) -> Mismatch:
    index = torch.unravel_index(torch.tensor(place), got.shape)
    return {
        "output": made.name,
        "index": [int(at) for at in index],
        "expected": _number(expected, place),
        "got": _number(got, place),
        "error": error,
    }


def _number(tensor: torch.Tensor, place: int) -> str:
    value = _raw(tensor).reshape(-1)[place].item()
    if tensor.dtype == torch.bool and value <= 1:
        return str(bool(value))
    return f"{value:.9g}" if isinstance(value, float) else str(value)
