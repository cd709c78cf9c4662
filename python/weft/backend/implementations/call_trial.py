"""Whether the user's call is faster by kernels than the module's own: the trial in
the user's process, with guards and wrappers included.

torch.export freezes what forward() reads of Python. So the trial also calls the
module's own forward() twice, and compares: state that changes from call to call
shows in the results.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from weft.backend.graphs import call_structure
from weft.backend.graphs.call_structure import Flattened
from weft.backend.graphs.random_state import kept
from weft.backend.implementations import timing_rounds

#: RMS of a difference over the RMS of what is expected. A second call differs by the
#: order of sums at most; a graph may round otherwise, which the last check judges.
SECOND_CALL_MAX, GRAPH_MAX = 0.02, 0.3
#: A smaller RMS of a difference is rounding, whatever is expected.
ERROR_LEAST = 1e-3
#: Elements that are compared at once.
ELEMENTS_MAX = 1 << 20
#: One timing takes at least this long, by repeated calls.
TIMING_S = 1e-3
REPEATS_MAX = 50
STATEFUL = (
    "forward() gives another result at its second call with the same inputs: "
    "it depends on state that a graph freezes"
)


@dataclasses.dataclass(frozen=True)
class CallSpeed:
    """The module's own call and the optimised one, on the user's inputs."""

    #: Own time over optimised time, median of the rounds; 0: not measured.
    ratio: float
    is_faster: bool  #: beyond noise


class Trial:
    """Two functions with the signature of forward(), on the inputs of one call.

    Tensors that a call writes to are afterwards what they were."""

    def __init__(
        self,
        own: Callable[..., Any],
        optimised: Callable[..., Any],
        call: Flattened,
        written: list[torch.Tensor],
        draws: bool,
    ) -> None:
        self._own, self._optimised, self._call = own, optimised, call
        self._written = written
        self._tensors = [leaf for leaf in call.leaves if isinstance(leaf, torch.Tensor)]
        self._draws = draws

    def difference(self) -> str:
        """Why the optimised call is not the module's, or ""."""
        first, second, optimised = (
            self._results(one) for one in (self._own, self._own, self._optimised)
        )
        if not _are_alike(first, second, SECOND_CALL_MAX):
            return STATEFUL
        if not _are_alike(first, optimised, GRAPH_MAX):
            return "the optimised call gives something else than forward()"
        return ""

    def speed(self, seconds: float) -> CallSpeed:
        """Times both in turns, for at most about that many seconds."""
        begin = time.perf_counter()
        with self._kept():
            self._called(self._optimised)
            repeats = min(REPEATS_MAX, max(1, math.ceil(TIMING_S / (time.perf_counter() - begin))))

            def repeated(function: Callable[..., Any]) -> Callable[[list[Any]], None]:
                def run(_: list[Any]) -> None:
                    for _round in range(repeats):
                        self._called(function)

                return run

            own, optimised = repeated(self._own), repeated(self._optimised)
            choice = timing_rounds.select_fastest(own, optimised, self._tensors, seconds)
        if not choice.times:
            return CallSpeed(0.0, True)  # no time: the search's timing stands
        ratio = statistics.median(
            slow / max(fast, 1e-9) for slow, fast in zip(choice.times[own], choice.times[optimised])
        )
        return CallSpeed(ratio, choice.function is optimised)

    def _results(self, function: Callable[..., Any]) -> Flattened:
        with self._kept():
            found = call_structure.flatten(self._called(function))
            # A result may be memory that the call wrote to.
            return dataclasses.replace(
                found,
                leaves=[
                    leaf.clone() if isinstance(leaf, torch.Tensor) and self._written else leaf
                    for leaf in found.leaves
                ],
            )

    def _called(self, function: Callable[..., Any]) -> Any:
        """A call's containers and objects are its own: forward() may change them."""
        args, kwargs = call_structure.restore(self._call.structure, self._call.leaves)
        return function(*args, **kwargs)

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        with torch.no_grad(), kept(self._tensors, self._draws):
            before = [one.clone() for one in self._written]
            try:
                yield
            finally:
                for one, value in zip(self._written, before):
                    one.copy_(value)


def _are_alike(one: Flattened, other: Flattened, limit: float) -> bool:
    """True if two results differ by rounding only."""
    return one.structure == other.structure and all(
        _is_alike(a, b, limit) for a, b in zip(one.leaves, other.leaves)
    )


def _is_alike(one: Any, other: Any, limit: float) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return call_structure.is_same_value(one, other)
    if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout):
        return False
    if one.layout != torch.strided:
        return True  # the last check has compared it
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    return _relative_error(one.reshape(-1), other.reshape(-1)) <= limit


def _relative_error(one: torch.Tensor, other: torch.Tensor) -> float:
    """RMS of the difference of two flat tensors over the RMS of the first one; of
    integers and truth values the share that differs."""
    errors, squares, count = 0.0, 0.0, max(1, one.numel())
    is_real = one.dtype.is_floating_point
    for a, b in zip(one.split(ELEMENTS_MAX), other.split(ELEMENTS_MAX)):
        if not is_real:
            errors += float((a != b).sum())
            continue
        finite = torch.isfinite(a)
        if not torch.equal(finite, torch.isfinite(b)):
            return math.inf
        a, b = a[finite].double(), b[finite].double()
        squares += float(a.square().sum())
        errors += float((a - b).square().sum())
    if not is_real:
        return errors / count
    error, scale = math.sqrt(errors / count), math.sqrt(squares / count)
    return 0.0 if error <= ERROR_LEAST else error / max(scale, ERROR_LEAST)


def refusal(of: Trial, seconds: float) -> tuple[str, CallSpeed]:
    """(why calls stay the module's own or "", the speed)."""
    if why := of.difference():
        return why, CallSpeed(0.0, False)
    speed = of.speed(seconds) if seconds > 0 else CallSpeed(0.0, True)
    if speed.is_faster:
        return "", speed
    return (
        f"not worth compiling: with guards and wrappers the optimised call has "
        f"{speed.ratio:.2f} times the speed of the module's own"
    ), speed
