"""The sums and extremes that the error model (compare.py) is made of.

Tensors on the host, and small ones on a device, are summed by PyTorch's operators. Large
ones on a device take one pass each (error_kernels.py), where the operators would take ten.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from weft.expect import error_kernels

if TYPE_CHECKING:
    from weft.expect.compare import Expected
    from weft.expect.error_kernels import Kernels

#: Elements at once: enough to drown what it costs to wake the framework's threads,
#: which sleep between two steps, while their float64 temporaries stay in a cache …
CHUNK = 1 << 20
#: … or, on a device, are large enough to drown what a step costs.
DEVICE_CHUNK = 1 << 26
#: … or, where one pass does it, show early that something is wrong.
KERNEL_CHUNK = 1 << 28
#: … or no more than this, in a program that may have little memory to spare.
_limit: contextvars.ContextVar[int | None] = contextvars.ContextVar(
    "elements at once", default=None
)
#: A square beyond float64 counts as this number's.
LARGEST = 1e140


@contextlib.contextmanager
def limited(elements: int) -> Iterator[None]:
    """Within it, no more elements are compared at once, by PyTorch's operators."""
    token = _limit.set(elements)
    try:
        yield
    finally:
        _limit.reset(token)


def elements_at_once(is_cuda: bool) -> int:
    """How many elements are compared in one step."""
    return _limit.get() or (DEVICE_CHUNK if is_cuda else CHUNK)


@dataclass
class Held:
    """Elements held against what is expected of each."""

    worst: float  #: error of any
    squares: float = 0.0  #: of all errors
    place: int | None = None  #: of the worst, if it is beyond the tolerance


def squares(tensor: torch.Tensor, other: torch.Tensor) -> tuple[float, int]:
    """(sum of the squares, number) of the elements that are finite in both."""
    if kernels := kernels_for(tensor, other):
        return kernels.squares(tensor, other)
    total, count = 0.0, 0
    for part, beside in chunks(tensor, other):
        part = part.double()
        square = float(part.dot(part))
        if not (square <= LARGEST**2 and bool(torch.isfinite(beside).all())):
            part = part[torch.isfinite(part) & torch.isfinite(beside)]
            square = float(part.clamp(-LARGEST, LARGEST).square().sum())
        total, count = total + square, count + part.numel()
    return total, count


def squares_where_lost(wide: torch.Tensor, framework: torch.Tensor) -> tuple[float, int]:
    """The same of the framework's elements where float64's are not finite."""
    if kernels := kernels_for(wide, framework):
        return kernels.squares_where_lost(wide, framework)
    total, count = 0.0, 0
    for truth, part in chunks(wide, framework):
        lost = ~torch.isfinite(truth) & torch.isfinite(part)
        if bool(lost.any()):
            part = part[lost].double().clamp(-LARGEST, LARGEST)
            total, count = total + float(part.dot(part)), count + part.numel()
    return total, count


def errors(result: torch.Tensor, truth: torch.Tensor, scale: float) -> tuple[float, float, int]:
    """(the largest error, sum of their squares, number) of the elements that
    are finite in both."""
    if kernels := kernels_for(result, truth):
        return kernels.errors(result, truth, scale)
    worst, total, count = 0.0, 0.0, 0
    for x, truth_part in chunks(result, truth):
        truth_part = truth_part.double()
        error = (x.double() - truth_part).abs_().div_(truth_part.abs() + scale)
        peak = float(error.max())
        if not math.isfinite(peak):
            error = error[torch.isfinite(x) & torch.isfinite(truth_part)]
            peak = float(error.max()) if error.numel() else 0.0
        worst = max(worst, peak)
        total, count = total + float(error.dot(error)), count + error.numel()
    return worst, total, count


def hold(got: torch.Tensor, made: Expected) -> Held:
    """Holds every element of `got` against the expectation `made`."""
    kernels = kernels_for(got, made.truth, made.framework)
    held, offset = Held(0.0), 0
    size = KERNEL_CHUNK if kernels else None
    for x, truth, framework in chunks(got, made.truth, made.framework, size=size):
        part = (
            _hold_by(kernels, x, truth, framework, made)
            if kernels
            else _hold_chunk(x, truth, framework, made)
        )
        if part.place is not None:
            part.place += offset
            return part
        held.worst = max(held.worst, part.worst)
        held.squares += part.squares
        offset += x.numel()
    return held


def place_of_worst(got: torch.Tensor, made: Expected, elements: torch.Tensor | None = None) -> int:
    """Where the largest error is, of all or of those at the flat places
    `elements`: evidence for who wrote it, no part of the verdict."""
    tensors = [t.reshape(-1) for t in (got, made.truth, made.framework)]
    if elements is not None:
        tensors = [t[elements.to(t.device)] for t in tensors]
    best, place, offset = -1.0, 0, 0
    for x, truth, framework in chunks(*tensors):
        x, truth = x.double(), truth.double()
        error = torch.fmin((x - truth).abs_(), (x - framework.double()).abs_())
        error.div_(truth.abs().add_(made.scale))
        worst, where = torch.nan_to_num(error, nan=0.0).max(0)
        if float(worst) > best:
            best, place = float(worst), offset + int(where)
        offset += x.numel()
    return place if elements is None else int(elements[place])


def kernels_for(*tensors: torch.Tensor) -> Kernels | None:
    """None where the steps are as good, or know better what is wrong."""
    first = tensors[0]
    if not first.is_cuda or first.numel() <= DEVICE_CHUNK or _limit.get() is not None:
        return None
    if not error_kernels.takes(tensors):
        return None
    return error_kernels.of(first.device.index)


def chunks(*tensors: torch.Tensor, size: int | None = None) -> Iterator[list[torch.Tensor]]:
    """Tensors of one size, flat, in pieces that cost no memory to speak of."""
    flat = [t.reshape(-1) for t in tensors]
    size = size or elements_at_once(flat[0].is_cuda)
    for start in range(0, flat[0].numel(), size):
        yield [t[start : start + size] for t in flat]


def _hold_by(
    kernels: Kernels, x: torch.Tensor, truth: torch.Tensor, framework: torch.Tensor, made: Expected
) -> Held:
    worst, total, count = kernels.errors(x, truth, made.scale)
    if count == x.numel() and worst <= made.tolerance:
        return Held(worst, total)
    worst, total, place = kernels.nearest(x, truth, framework, made.scale, made.lost_scale)
    return Held(worst, total, None if worst <= made.tolerance else place)


def _hold_chunk(
    x: torch.Tensor, truth: torch.Tensor, framework: torch.Tensor, made: Expected
) -> Held:
    x, truth = x.double(), truth.double()
    scale = truth.abs().add_(made.scale)
    error = (x - truth).abs_().div_(scale)
    worst = float(error.max())
    if worst <= made.tolerance:
        # Every element of both is finite: nan fails the comparison above.
        return Held(worst, float(error.dot(error)))
    error = of_each(x, truth, framework, made)
    largest, where = error.max(0)
    if float(largest) <= made.tolerance:
        return Held(float(largest), float(error.dot(error)))
    return Held(float(largest), place=int(where))


def of_each(
    x: torch.Tensor, truth: torch.Tensor, framework: torch.Tensor, made: Expected
) -> torch.Tensor:
    """The error of each element. Where float64 and the framework part (a branch,
    an overflow, an infinity that one of them subtracts from itself), either
    answer is right."""
    x, truth, framework = x.double(), truth.double(), framework.double()
    scale = truth.abs().add_(made.scale)
    error = (x - truth).abs_().div_(scale)
    lost = framework.abs().add_(made.lost_scale)
    near = (x - framework).abs_().div_(torch.where(torch.isfinite(truth), scale, lost))
    error = torch.minimum(
        torch.nan_to_num(error, nan=math.inf, posinf=math.inf),
        torch.nan_to_num(near, nan=math.inf, posinf=math.inf),
    )
    same = _same_kind(x, truth) | _same_kind(x, framework)
    error = torch.where(torch.isfinite(x), error, math.inf)
    return torch.where(same, 0.0, error)


def _same_kind(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where both are the same infinity, or `other` is nan and x not finite.

    A nan may come of the algorithm alone (a running mean subtracts infinities
    where a plain sum keeps them), so an infinity in its place is no error.
    """
    both_lost = ~torch.isfinite(x) & torch.isnan(other)
    return both_lost | (torch.isinf(x) & (x == other))
