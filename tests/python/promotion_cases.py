"""Every binary operator on every pair of operand kinds and data types: what
PyTorch's type promotion makes of the operands shows in the results."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterator

import torch

Operand = torch.Tensor | int | float | bool
Function = Callable[[torch.Tensor, Operand], torch.Tensor]

#: Data types with kernels on some target, and those that stay PyTorch's.
LOWERED = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int32,
    torch.int64,
    torch.bool,
)
REFUSED = (torch.int8, torch.int16, torch.uint8)
NUMBERS = (0.1, 3, True)

#: Results of these must equal eager's bit for bit, as the arithmetic is exact or
#: rounded once. The others may be off by the last digit.
EXACT: dict[str, Function] = {
    "add": torch.add,
    "added_to": lambda x, y: y + x,
    "sub": lambda x, y: x - y,
    "subtracted_from": lambda x, y: y - x,
    "mul": torch.mul,
    "multiplied_with": lambda x, y: y * x,
    "div": torch.div,
    "minimum": lambda x, y: torch.minimum(x, as_tensor(y)),
    "maximum": lambda x, y: torch.maximum(x, as_tensor(y)),
    "clamp_min": lambda x, y: torch.clamp(x, min=y),
    "clamp_max": lambda x, y: torch.clamp(x, max=y),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "masked_fill": lambda x, y: x.masked_fill(x > 0, y),
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "sum_is_zero": lambda x, y: (x + y) == 0,
    "product_is_one": lambda x, y: (x * y) == 1,
    "logical_and": lambda x, y: torch.logical_and(x, as_tensor(y)),
    "logical_or": lambda x, y: torch.logical_or(x, as_tensor(y)),
    "logical_xor": lambda x, y: torch.logical_xor(x, as_tensor(y)),
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
}
ROUNDED: dict[str, Function] = {
    "add_alpha": lambda x, y: torch.add(x, y, alpha=3),
    "divided_by": lambda x, y: y / x,
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "pow": lambda x, y: x.abs() ** y,
    "power_of": lambda x, y: y**x,
    "atan2": lambda x, y: torch.atan2(x, as_tensor(y)),
    "xlogy": torch.xlogy,
    "addcmul": lambda x, y: torch.addcmul(x, x, as_tensor(y), value=0.1),
    "div_floor": lambda x, y: floor_divided(x, y),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, as_tensor(y), value=0.1),
}


@dataclasses.dataclass(frozen=True)
class Pair:
    """The operands of a call; `second` is a number, or a tensor."""

    label: str
    first: torch.Tensor
    second: Operand


def as_tensor(value: Operand) -> torch.Tensor:
    """Raises TypeError of a number: the operator takes tensors alone."""
    if not isinstance(value, torch.Tensor):
        raise TypeError("a number for a tensor")
    return value


def floor_divided(x: torch.Tensor, y: Operand) -> torch.Tensor:
    """By numbers alone. Raises TypeError of a tensor: eager rounds halves several
    times before it floors them, and is a step off."""
    if isinstance(y, torch.Tensor):
        raise TypeError("a tensor for a number")
    return torch.div(x, y, rounding_mode="floor")


def values(dtype: torch.dtype, rank: int, seed: int) -> torch.Tensor:
    """[60], or no dimensions: tenths, or whole numbers that bfloat16 has not."""
    generator = torch.Generator().manual_seed(seed)
    count = 60
    if dtype == torch.bool:
        found = torch.randint(0, 2, (count,), generator=generator).bool()
    elif dtype.is_floating_point:
        found = torch.randint(-15, 16, (count,), generator=generator) * 0.1
        found[:8] = torch.tensor([0.1, -0.1, 0.3, -0.3, 10.0, 2.0, 1.0, -1.0])
    else:
        most = 100 if dtype.itemsize == 1 else 3000
        found = torch.randint(
            0 if dtype == torch.uint8 else -most, most, (count,), generator=generator
        )
        found[:4] = torch.tensor([1, 3, 2, 0])
    found = found.to(dtype)
    if rank == 1:
        return found
    return torch.tensor(0.1 if dtype.is_floating_point else dtype == torch.bool or 77, dtype=dtype)


def pairs(dtypes: tuple[torch.dtype, ...]) -> Iterator[Pair]:
    """A tensor of each of those types, with each second operand."""
    for dtype in dtypes:
        name = str(dtype).removeprefix("torch.")
        first = values(dtype, 1, 1)
        for number in NUMBERS:
            yield Pair(f"{name}, {number}", first, number)
        for other, rank in itertools.product(LOWERED + REFUSED, (0, 1)):
            kind = f"{str(other).removeprefix('torch.')} of rank {rank}"
            yield Pair(f"{name}, {kind}", first, values(other, rank, 2))


def is_sampled(label: str, one_in: int) -> bool:
    """The same part of all labels in each run."""
    return int(hashlib.sha256(label.encode()).hexdigest(), 16) % one_in == 0


@dataclasses.dataclass(frozen=True)
class Case:
    """One operator on one pair; `inputs` are the pair's tensors."""

    name: str
    is_exact: bool
    function: Callable[..., torch.Tensor]
    inputs: tuple[torch.Tensor, ...]

    def __iter__(self) -> Iterator[object]:
        """(name, function, inputs): captured_cases' form."""
        return iter((self.name, self.function, self.inputs))


def cases(dtypes: tuple[torch.dtype, ...], one_in: int) -> list[Case]:
    """Those that eager takes, of all or of one in so many."""
    found = []
    for pair in pairs(dtypes):
        for name, function in (EXACT | ROUNDED).items():
            label = f"{name} of {pair.label}"
            if not is_sampled(label, one_in):
                continue
            case = case_of(label, name in EXACT, function, pair)
            if case is not None:
                found.append(case)
    return found


def case_of(label: str, is_exact: bool, function: Function, pair: Pair) -> Case | None:
    """None where eager raises."""
    if isinstance(pair.second, torch.Tensor):
        case = Case(label, is_exact, function, (pair.first, pair.second))
    else:
        number = pair.second
        case = Case(label, is_exact, lambda x: function(x, number), (pair.first,))
    try:
        case.function(*case.inputs)
    except (RuntimeError, TypeError):
        return None
    return case
