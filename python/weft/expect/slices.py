"""Errors of each slice of a result, relative to the size of that slice.

A whole output's scale hides what is far below it: if each row is half of the one before, a
kernel could leave the last ones out. So every row is compared by itself, and every slice with
one index of one dimension (a channel, a step, a batch). The measure is the root mean square
of the errors, divided by that of the values. The bound comes from eager's own worst slice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from weft.expect.error_sums import LARGEST, elements_at_once, kernels_for

#: A slice of fewer elements may be small by accident, as one element is whose
#: terms cancel: its error over its size says nothing.
ELEMENTS_MIN = 16
#: So may one that has its size from fewer than so many: of a million rows of
#: which relu leaves an element each, some have a small one.
CARRIERS_MIN = 3.0
#: Among so many slices that err by more, and by this share of all, one is sought
#: that has its size from more elements. More of them are no accident: they are
#: wrong, whatever they hold.
SUSPECTS_MAX = 256
SUSPECTS_SHARE = 0.01
#: A function that is made of another (a tanh of exponentials) errs by some units
#: of one, however small its result: of a row ten thousand times below that, by
#: this. The rule finds what is left out, and what is coarser than bfloat16.
TOLERANCE_MIN = 2.0**-9
#: … of half formats, so many times their floor.
FLOOR_TIMES = 4.0
#: Where the framework's own result is off by so much of a slice's size, the
#: slice is what rounding left of values that cancelled.
UNSURE = 1e-2
#: Where no float64 answer tells such slices, those below so many units of the
#: whole's roundoff are not held …
UNTOLD_UNITS = 8.0
#: … and the others to this.
UNTOLD_MAX = 2.0**-7
#: Of a slice that is wrong, so many elements are looked through for the one
#: that is farthest off.
ELEMENTS_NAMED_MAX = 1 << 22


@dataclass
class Slices:
    """How large each slice of one output is, and what it may err."""

    shape: tuple[int, ...]
    #: Sums of the squares of what is expected, by partition.
    sizes: list[torch.Tensor]
    #: Which are held, by partition.
    held: list[torch.Tensor]
    #: Of a slice's root mean square.
    tolerance: float


@dataclass
class Beyond:
    """A slice that errs by more than it may."""

    error: float
    place: str
    elements: torch.Tensor | None = None  #: its flat places, unless too many


def split(shape: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """(leading dimensions, trailing ones whose elements make a row)."""
    trailing, count = len(shape), 1
    while trailing > 0 and count < ELEMENTS_MIN:
        trailing -= 1
        count *= shape[trailing]
    return shape[:trailing], shape[trailing:]


def has_slices(shape: Sequence[int]) -> bool:
    """Whether there are several, each of enough elements."""
    return any(True for _ in _partitions(shape))


def _partitions(shape: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(what to call it, dimensions that name a slice)."""
    numel = math.prod(shape)
    leading, trailing = split(shape)
    if numel == 0:
        return
    if math.prod(leading) > 1 and math.prod(trailing) >= ELEMENTS_MIN:
        yield "row", tuple(range(len(leading)))
    for dim, extent in enumerate(shape):
        is_row = len(leading) == 1 and dim == 0
        if extent > 1 and not is_row and numel // extent >= ELEMENTS_MIN:
            yield f"slice of dimension {dim}", (dim,)


def of(
    truth: torch.Tensor, framework: torch.Tensor, is_told: bool, floor: float, factor: float
) -> Slices | None:
    """The slices of an output; None if it has no two that could be held.

    `is_told`: whether `truth` is of a wider type than the framework's result.
    """
    if not has_slices(truth.shape):
        return None
    sizes = _sums(truth.shape, _squares(truth, framework))
    if not is_told:
        counts = [truth.numel() / max(1, one.numel()) for one in sizes]
        most = max(float(one.sum()) for one in sizes) / truth.numel()
        least = (UNTOLD_UNITS * torch.finfo(framework.dtype).eps) ** 2 * most
        held = [one > least * count for one, count in zip(sizes, counts)]
        return Slices(tuple(truth.shape), sizes, held, max(FLOOR_TIMES * floor, UNTOLD_MAX))
    errors = _relative(_sums(truth.shape, _differences(framework, truth, truth)), sizes)
    held = [(one <= UNSURE) & (size > 0) for one, size in zip(errors, sizes)]
    own = max(
        (float(one[which].max()) for one, which in zip(errors, held) if bool(which.any())),
        default=0.0,
    )
    return Slices(
        tuple(truth.shape), sizes, held, max(TOLERANCE_MIN, FLOOR_TIMES * floor, factor * own)
    )


def widen(slices: Slices, lossy: torch.Tensor, truth: torch.Tensor, factor: float) -> None:
    """Allows so many times what another run of the framework's errs there."""
    errors = _relative(_sums(truth.shape, _differences(lossy, truth, truth)), slices.sizes)
    for one, held in zip(errors, slices.held):
        if bool(held.any()):
            slices.tolerance = max(slices.tolerance, factor * float(one[held].max()))


def learn(slices: Slices, drawn: Slices) -> None:
    """Holds those that both draws hold, against the worse of the two."""
    slices.held = [one & other for one, other in zip(slices.held, drawn.held)]
    slices.tolerance = max(slices.tolerance, drawn.tolerance)


def near(framework: torch.Tensor, tolerance: float) -> Slices | None:
    """Those of a result that is held against the framework's alone."""
    if not has_slices(framework.shape):
        return None
    sizes = _sums(framework.shape, _squares(framework, framework))
    return Slices(tuple(framework.shape), sizes, [size > 0 for size in sizes], tolerance)


def hold(
    got: torch.Tensor, truth: torch.Tensor, framework: torch.Tensor, slices: Slices
) -> Beyond | None:
    """The first Beyond of a result, or None. Where float64 and the framework
    part, the nearer of both counts."""
    for other in (truth, framework):
        found = _first_beyond(_sums(slices.shape, _differences(got, truth, other)), slices, truth)
        if found is None:
            return None
        if truth is framework:
            break
    return found


def _first_beyond(sums: list[torch.Tensor], slices: Slices, truth: torch.Tensor) -> Beyond | None:
    errors = _relative(sums, slices.sizes)
    names = _partitions(slices.shape)
    for (name, dims), error, held in zip(names, errors, slices.held):
        beyond = held & ~(error <= slices.tolerance)
        suspects = beyond.reshape(-1).nonzero().reshape(-1)
        may_be_accidents = len(suspects) <= max(
            1, min(SUSPECTS_MAX, SUSPECTS_SHARE * beyond.numel())
        )
        extents = [slices.shape[dim] for dim in dims]
        for flat in suspects[: SUSPECTS_MAX + 1].tolist():
            place = [int(i) for i in torch.unravel_index(torch.tensor(flat), extents)]
            elements = _elements(slices.shape, dims, place)
            if (
                may_be_accidents
                and elements is not None
                and _carriers(truth, elements) < CARRIERS_MIN
            ):
                continue
            where = place[0] if len(place) == 1 else place
            return Beyond(float(error.reshape(-1)[flat]), f"{name} {where}", elements)
    return None


def _carriers(truth: torch.Tensor, elements: torch.Tensor) -> float:
    """From how many of these elements their size comes: all, if they are alike;
    one, if it is far above the others."""
    values = truth.reshape(-1)[elements.to(truth.device)].double()
    squares = values[torch.isfinite(values)].square()
    largest = squares.max() if len(squares) else squares.new_zeros(())
    if largest == 0:
        return 0.0
    squares = squares / largest
    return float(squares.sum() ** 2 / squares.square().sum())


def _elements(shape: Sequence[int], dims: tuple[int, ...], place: list[int]) -> torch.Tensor | None:
    """The flat places of a slice; None where they would take much memory."""
    count = math.prod(shape) // max(1, math.prod(shape[dim] for dim in dims))
    if count > ELEMENTS_NAMED_MAX:
        return None
    found, stride = torch.zeros(1, dtype=torch.int64), 1
    at = dict(zip(dims, place))
    for dim in reversed(range(len(shape))):
        own = (torch.tensor([at[dim]]) if dim in at else torch.arange(shape[dim])) * stride
        found = (own[:, None] + found[None, :]).reshape(-1)
        stride *= shape[dim]
    return found


def _relative(sums: list[torch.Tensor], sizes: list[torch.Tensor]) -> list[torch.Tensor]:
    """Roots of the ratios; nothing over nothing is no error."""
    return [
        torch.where(size > 0, one / size, torch.inf * (one > 0))
        .nan_to_num(nan=0.0, posinf=math.inf)
        .sqrt()
        for one, size in zip(sums, sizes)
    ]


@dataclass
class _Squares:
    """Of `x`, or of its differences from the nearer of two answers, where all three
    are finite."""

    x: torch.Tensor
    want: torch.Tensor
    other: torch.Tensor
    is_difference: bool

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.x, self.want, self.other

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Those of the elements from `start` to `stop`, flattened."""
        x, want, other = (t.reshape(-1)[start:stop] for t in self.tensors)
        x = x.double()
        if not self.is_difference:
            return _squared(x, x, other)
        want = want.double()
        if self.other is self.want:
            return _squared(x - want, x, want)
        other = other.double()
        error = torch.fmin((x - want).abs_(), (x - other).abs_())
        return _squared(error, x, want, other)


def _squares(truth: torch.Tensor, framework: torch.Tensor) -> _Squares:
    return _Squares(truth, truth, framework, is_difference=False)


def _differences(got: torch.Tensor, truth: torch.Tensor, other: torch.Tensor) -> _Squares:
    return _Squares(got, truth, other, is_difference=True)


def _squared(values: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
    """Nothing where one of the parts is not finite: those are told by their
    kind, element by element."""
    squares = values * values
    if math.isfinite(float(squares.sum())) and all(
        math.isfinite(float(part.sum())) for part in parts[1:]
    ):
        return squares
    counts = torch.isfinite(values)
    for part in parts:
        counts &= torch.isfinite(part)
    return values.masked_fill(~counts, 0.0).clamp_(-LARGEST, LARGEST).square_()


def _sums(shape: Sequence[int], squares: _Squares) -> list[torch.Tensor]:
    """For each partition the sums of those `squares` in each of its slices."""
    leading, trailing = split(shape)
    count, width = math.prod(leading), math.prod(trailing)
    if kernels := kernels_for(*squares.tensors):
        rows, columns = kernels.rows_and_columns(squares.tensors, width, squares.is_difference)
    else:
        rows, columns = _in_steps(squares, count, width)
    rows, columns = rows.reshape(leading), columns.reshape(trailing)
    return [_of_partition(rows, columns, dims) for _, dims in _partitions(shape)]


def _in_steps(squares: _Squares, count: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(sums of each row, sums of each column), in one pass."""
    device = squares.tensors[0].device
    step = max(1, elements_at_once(device.type == "cuda") // width)
    rows = torch.zeros(count, dtype=torch.float64, device=device)
    columns = torch.zeros(width, dtype=torch.float64, device=device)
    for first in range(0, count, step):
        last = min(count, first + step)
        part = squares.part(first * width, last * width).reshape(-1, width)
        rows[first:last] = part.sum(1)
        columns += part.sum(0)
    return rows, columns


def _of_partition(rows: torch.Tensor, columns: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    if len(dims) == rows.dim() and dims == tuple(range(rows.dim())):
        return rows
    [dim] = dims
    held, kept = (rows, dim) if dim < rows.dim() else (columns, dim - rows.dim())
    others = [d for d in range(held.dim()) if d != kept]
    return held.sum(others) if others else held
