"""Gives a Python file's result allocations the memory where results are compared.

A module that is composed of the kernel returns the allocation itself. Copying the
result to where it is compared would count as time that no caller of the module pays.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import torch

from weft.candidate.mapped_tensors import MAPPED_BYTES, touch

#: Functions of `torch` by which a file may allocate its results …
EMPTY = ("empty", "empty_like", "empty_strided")
#: … and those that fill what they allocate with zeros, by the one that does not.
ZEROS = {"zeros": "empty", "zeros_like": "empty_like"}

Look = tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]


class Allocations:
    """The allocations that one call of a file makes. They are the same in every call.

    `begin` starts a call and names the tensors where its results are compared, `learn`
    ends it. The first call decides which allocation becomes which result. In later
    calls an allocation of that number and look lies in the memory of that result.
    """

    def __init__(self) -> None:
        #: Whether a call also allocates and maps the memory that a result would take.
        self.pays = False
        #: {number of an allocation: (number of its result, look of the allocation)}
        #: from the first call on.
        self._results: dict[int, tuple[int, Look]] | None = None
        self._outputs: Sequence[torch.Tensor] | None = None
        self._count = 0
        self._made: list[torch.Tensor] = []

    def of_inductor(self, module: ModuleType) -> None:
        """Counts what a file of Inductor's allocates, by the functions it imports."""
        for name, function in list(vars(module).items()):
            if name.startswith("empty_strided_"):
                setattr(module, name, partial(self._allocate, function))

    def of_file(self, name: str) -> None:
        """Counts what code of the module of that name allocates by functions of
        `torch`. Allocations of other modules (Triton's autotuner) are not counted."""

        def counted(
            empty: Callable[..., torch.Tensor], original: Callable[..., torch.Tensor], fills: bool
        ) -> Callable[..., torch.Tensor]:
            def allocate(*args: Any, **kwargs: Any) -> torch.Tensor:
                is_counted = (
                    self._outputs is not None and sys._getframe(1).f_globals.get("__name__") == name
                )
                if not is_counted:
                    return original(*args, **kwargs)
                made = self._allocate(empty, *args, **kwargs)
                return made.zero_() if fills else made

            return allocate

        empties = {each: getattr(torch, each) for each in EMPTY}
        for each, function in empties.items():
            setattr(torch, each, counted(function, function, fills=False))
        for each, empty in ZEROS.items():
            original = getattr(torch, each)
            setattr(torch, each, counted(empties[empty], original, fills=True))

    def begin(self, outputs: Sequence[torch.Tensor]) -> None:
        """Starts a call whose results are compared there."""
        self._outputs, self._count, self._made = outputs, 0, []

    def _allocate(
        self, function: Callable[..., torch.Tensor], *args: Any, **kwargs: Any
    ) -> torch.Tensor:
        number, self._count = self._count, self._count + 1
        made = function(*args, **kwargs)
        if self._results is None:
            self._made.append(made)
            return made
        result, known = self._results.get(number, (0, None))
        if known is None or known != look(made):
            return made
        # The memory that a result would take is taken, and freed.
        if self.pays and made.nbytes > MAPPED_BYTES:
            touch(made)
        assert self._outputs is not None
        return self._outputs[result].as_strided(made.shape, made.stride())

    def learn(self, results: Sequence[object]) -> None:
        """Ends a call. All allocations of the first one still exist here."""
        outputs, self._outputs = self._outputs, None
        if self._results is not None or outputs is None:
            return
        self._results = {
            number: (place, look(made))
            for place, (result, output) in enumerate(zip(results, outputs))
            for number, made in enumerate(self._made)
            if are_one(made, result, output)
        }
        self._made = []


def are_one(made: torch.Tensor, result: object, output: torch.Tensor) -> bool:
    """Whether a result is all of that allocation, and looks as the tensor where the
    result is compared. Only then does the allocation's shape fit into that memory,
    and the result lies where it is compared."""
    return (
        type(result) is torch.Tensor
        and look(result) == look(output)
        and made.dtype == result.dtype
        and made.data_ptr() == result.data_ptr()
        and made.untyped_storage().nbytes() == span(made) == span(result)
    )


def look(tensor: torch.Tensor) -> Look:
    """What of a tensor is the same wherever it lies."""
    return tensor.dtype, tuple(tensor.shape), tuple(tensor.stride())


def span(tensor: torch.Tensor) -> int:
    """Bytes from its first element to behind its last one."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return (1 + last) * tensor.itemsize
