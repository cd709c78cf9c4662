"""Trials of variants of a program: on a call's arguments, against the incumbent."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from weft.backend.graphs.random_state import random_states, set_random_states, uses_rng
from weft.backend.implementations import first_result_check
from weft.backend.implementations.incumbent import Compiled, Request
from weft.backend.implementations.program_timing import Arguments, Comparison, compared
from weft.backend.searches.region_kernel import Kernel
from weft.expect import tolerance


@dataclasses.dataclass
class Trial:
    """The result of one variant on a call's data."""

    why_not: str = ""
    comparison: Comparison | None = None


class ProgramTrials:
    """Checks and times variants of one program. `trial_s`: seconds for timing; 0: none."""

    def __init__(self, request: Request, trial_s: float) -> None:
        self._request = request
        self._trial_s = trial_s
        #: Whether the program draws random numbers.
        self.draws = uses_rng(request.module)

    def run(
        self,
        functions: tuple[Compiled, Compiled, Compiled],
        kernels: Sequence[Kernel],
        given: list[Any],
        cuda_graphs: bool,
    ) -> Trial:
        """Compares results and time of the incumbent, of what computes now, and of the variant,
        on a call's arguments. `kernels`: those that the variant has and the others lack.
        `cuda_graphs`: whether replays are timed."""
        incumbent, _, variant = functions
        arguments = Arguments(self._request, given)
        with self.same_numbers(given):
            expected = list(incumbent(arguments.fresh()))
        with self.same_numbers(given), _checked(kernels) as failures:
            got = list(variant(arguments.fresh()))
        if failures:
            return Trial(failures[0])
        why = self._difference(arguments, expected, got)
        if why:
            return Trial(f"in the whole program: {why}")
        del expected, got
        if self._trial_s <= 0:
            return Trial()
        with self.same_numbers(given):
            return Trial("", compared(functions, arguments, self._trial_s, cuda_graphs))

    def _difference(self, arguments: Arguments, expected: list[Any], got: list[Any]) -> str:
        """ "" if the program is the same around the regions, each of which has been
        compared with its own operators."""
        if self._request.role == "forward":
            # The backward graph was compiled for the strides of what this one saves.
            why_not: str = first_result_check.form_difference(expected, got)
            if why_not:
                return why_not
        why: str = first_result_check.difference(expected, got)
        if not why:
            return ""
        if self.draws:  # Inductor draws other numbers than eager
            return (
                first_result_check.distance(expected, got)
                if any(
                    isinstance(one, torch.Tensor) and one.itemsize == 2 and one.is_floating_point()
                    for one in expected
                )
                else why
            )
        eager = list(self._request.module(*arguments.fresh()))
        return self.against_eager(arguments, eager, got)

    def against_eager(self, arguments: Arguments, eager: list[Any], got: list[Any]) -> str:
        """ "" if a program that Inductor compiled is right, else what differs."""
        return first_result_check.Check(
            self._request.module,
            arguments.fresh(),
            "tf32",
            arguments.static,
            factor=tolerance.INDUCTOR_FACTOR,
        ).why_not(eager, got)

    @contextlib.contextmanager
    def same_numbers(self, given: list[Any]) -> Iterator[None]:
        """What draws finds the generators as the program left them, and leaves them
        so."""
        if not self.draws:
            yield
            return
        states = random_states(given)
        try:
            yield
        finally:
            set_random_states(states)


@contextlib.contextmanager
def _checked(kernels: Sequence[Kernel]) -> Iterator[list[str]]:
    """While it lasts, each call of these regions' kernels is compared with the
    regions' own operators; gives the list of what differs."""
    failures: list[str] = []
    for kernel in kernels:
        kernel.check = failures
    try:
        yield failures
    finally:
        for kernel in kernels:
            kernel.check = None
            if kernel.failure:
                failures.append(kernel.failure)
