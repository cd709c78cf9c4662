"""The last check: two implementations of a graph, compared on the program's data.

The search has verified its kernels in a sandbox, on many kinds of data. Before they
take over, their first results here are compared with eager's. Results within half
of the rounding slack of eager's are right. Any others are compared with a reference:
the graph in a wider type. The table in expect/tolerance.py says how many times
eager's error they may err.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from weft.backend.graphs.random_state import States, kept, set_random_states
from weft.backend.implementations import reference_run
from weft.device.device import free_bytes
from weft.expect import (
    compare,
    error_sums,
    perturbed_runs,
    slices,
    summed_terms,
    tf32,
    tolerance,
)
from weft.expect.rng_recording import Give, Take

#: Elements that are compared at once. Each takes 60 bytes at most, and the program's
#: own memory must have room for them.
ELEMENTS_MAX = 1 << 18
#: Seconds that references may take, and the share of free memory.
SECONDS_MAX = 20.0
MEMORY_SHARE = 0.5


def difference(expected: Sequence[Any], got: Sequence[Any], precision: str = "") -> str:
    """ "" if the results differ by rounding only, else what differs. The slack of the
    tolerance table is allowed, and no more. Both are lists of tensors, numbers and
    None. `precision`: "tf32" if PyTorch's products of float32 are."""
    with torch.no_grad():
        return form_difference(expected, got) or next(
            (
                f"result {i}: {why}"
                for i, a, b in _tensors(expected, got)
                if (why := _beyond_slack(a, b, summed_terms.UNTOLD, precision, False))
            ),
            "",
        )


def distance(expected: Sequence[Any], got: Sequence[Any]) -> str:
    """ "" if two compilers' results are the same but for rounding, which may be much
    in a deep net of halves, else how far they are from each other. This needs no
    reference; it finds results of which a good part is wrong."""
    with torch.no_grad():
        return next(
            (
                f"result {i}: {why}"
                for i, a, b in _tensors(expected, got)
                if a.dtype.is_floating_point and (why := _far(a, b))
            ),
            "",
        )


def _far(a: torch.Tensor, b: torch.Tensor) -> str:
    with error_sums.limited(ELEMENTS_MAX):
        made = compare.expect("", _ordered(a, a), None)
        made.scale = max(made.scale, tolerance.INDUCTOR_SCALE_MIN)
        made.tolerance, made.slices = math.inf, None
        made.rms_tolerance = tolerance.INDUCTOR_RMS_MAX
        found = compare.compare(_ordered(a, b), made)
    if found.reason and found.together > made.rms_tolerance:
        return f"an error of {found.together:.2g} RMS"
    return found.reason


@dataclasses.dataclass
class Check:
    """The check of one graph's implementations on one call's arguments."""

    graph_module: torch.fx.GraphModule
    arguments: Sequence[Any]
    #: "tf32" if PyTorch's products of float32 are, by the search's verdict.
    precision: str = ""
    #: Which arguments are parameters or buffers.
    state: Iterable[int] = ()
    #: The generators' states before the implementations drew from them. None: the
    #: graph draws nothing.
    random: States | None = None
    #: How many times a kernel's bound the error may be.
    factor: float = 1.0
    seconds_max: float = SECONDS_MAX

    def why_not(self, eager: Sequence[Any], got: Sequence[Any]) -> str:
        """ "" if `got` is right, else what differs. `eager`: eager's results on the
        same arguments. Leaves the generators as they are."""
        with torch.no_grad():
            # Inductor lays out some results otherwise than eager.
            why = form_difference(eager, got, has_strides=self.factor == 1)
            if why or self._is_near(eager, got):
                return why
            self._until = time.monotonic() + self.seconds_max
            with kept(self.arguments, self.random is not None):
                return self._against_reference(eager, got)

    def _is_near(self, eager: Sequence[Any], got: Sequence[Any]) -> bool:
        """Whether no reference is needed: an error within half of the slack is
        within the tolerance, whatever eager's own is."""
        self._length = summed_terms.length_of_graph(self.graph_module)
        return not any(
            _beyond_slack(a, b, self._length, self.precision, True)
            for _, a, b in _tensors(eager, got)
        )

    def _against_reference(self, eager: Sequence[Any], got: Sequence[Any]) -> str:
        made, lacking = self._expectations(eager, self.arguments)
        held = perturbed_runs.PerturbedRuns(made, None if lacking else self._redrawn)
        for expected, (i, a, b) in zip(made, _tensors(eager, got), strict=True):
            is_lenient = self.factor > 1
            if is_lenient and not a.dtype.is_floating_point:
                continue  # ties may be decided otherwise
            if lacking and is_lenient:
                if why := _far(a, b):
                    return f"result {i}: {why}; there is no reference: {lacking}"
                continue
            b = _ordered(a, b)
            with error_sums.limited(ELEMENTS_MAX):
                found = held.compare(b, expected)
                if found.beyond and self.precision == "tf32" and a.dtype == torch.float32:
                    self._allow_tf32(made)
                    found = compare.compare(b, expected)
                if self._is_refused(found, b, expected):
                    return _described(i, b, expected, found.reason, lacking)
        return ""

    def _is_refused(
        self, found: compare.Finding, got: torch.Tensor, expected: compare.Expected
    ) -> bool:
        if not found.reason:
            # Nothing but zeros is expected: then nothing else may be there.
            return _is_zero(expected.framework, expected.wide) and not _is_zero(got)
        return not found.beyond or found.beyond > self.factor

    def _expectations(
        self, eager: Sequence[Any], arguments: Sequence[Any]
    ) -> tuple[list[compare.Expected], str]:
        """(what is expected of each tensor, why there is no reference)."""
        rounding = reference_run.rounding_of(self.graph_module)
        try:
            made = self._held_against(eager, rounding, self._reference(rounding.wide, arguments))
        except reference_run.NoReference as error:
            return self._held_against(eager, rounding, [None] * len(eager)), (
                str(error).splitlines()[0]
            )
        if not any(map(compare.is_lost, made)):
            return made, ""
        # Such a result may be what a cast of the graph's own leaves.
        try:
            rounded = self._held_against(
                eager, rounding, self._reference(rounding.wide, arguments, rounds=True)
            )
        except reference_run.NoReference:
            return made, ""
        return list(map(compare.with_casts, made, rounded)), ""

    def _held_against(
        self, eager: Sequence[Any], rounding: reference_run.Rounding, wide: Sequence[Any]
    ) -> list[compare.Expected]:
        made = []
        for i, a, truth in _tensors(eager, wide):
            half = rounding.halves[i] if a.dtype == torch.float32 else None
            if truth is not None and truth.dtype == a.dtype and half is not None:
                truth = truth.double()  # compare.py takes no other for a reference
            is_wider = truth is not None and truth.dtype.itemsize > a.dtype.itemsize
            with error_sums.limited(ELEMENTS_MAX):
                made.append(
                    compare.expect(
                        str(i),
                        _ordered(a, a),
                        None if truth is None else _ordered(a, truth),
                        self._length if is_wider else summed_terms.UNTOLD,
                        half,
                    )
                )
        return made

    def _reference(
        self, dtype: torch.dtype, arguments: Sequence[Any], rounds: bool = False
    ) -> list[Any]:
        room = min(map(free_bytes, _devices(arguments)), default=0)
        limits = reference_run.Limits(int(MEMORY_SHARE * room), self._until)
        limits.check(0)
        with self._draws(arguments):
            return reference_run.run(self.graph_module, arguments, dtype, limits, rounds)

    def _draws(self, arguments: Sequence[Any]) -> Any:
        """A context that draws what eager draws."""
        if self.random is None:
            return contextlib.nullcontext()
        drawn: list[Any] = []
        device = next(
            (one for one in _devices(arguments) if one.type == "cuda"), torch.device("cpu")
        )
        try:
            with Take(drawn, device):
                self._eager(arguments)
        except LookupError as error:
            raise reference_run.NoReference(str(error)) from None
        return Give(drawn)

    def _eager(self, arguments: Sequence[Any]) -> list[Any]:
        if self.random is not None:
            set_random_states(self.random)
        return list(self.graph_module(*arguments))

    def _redrawn(self, factor: float) -> list[compare.Expected]:
        """The expectations for nearby arguments: another draw of eager's rounding."""
        scaled = perturbed_runs.scaled
        floating = {
            i
            for i, one in enumerate(self.arguments)
            if isinstance(one, torch.Tensor) and one.is_floating_point()
        }
        chosen = floating.difference(self.state) or floating
        nearby = [
            scaled([one], factor)[0] if i in chosen else one for i, one in enumerate(self.arguments)
        ]
        made, lacking = self._expectations(self._eager(nearby), nearby)
        if lacking:
            raise reference_run.NoReference(lacking)
        return made

    def _allow_tf32(self, made: list[compare.Expected]) -> None:
        """Widens the expectations by what TF32 costs in the graph."""
        for lose in (tf32.cut, tf32.rounded):
            with tf32.Lossy(lose):
                lossy = self._eager(self.arguments)
            for expected, (_, a, b) in zip(made, _tensors(lossy, lossy)):
                compare.allow(expected, _ordered(a, b))


def form_difference(expected: Sequence[Any], got: Sequence[Any], has_strides: bool = True) -> str:
    """ "" if the results are of the same number and kind, else what differs."""
    if len(expected) != len(got):
        return f"{len(got)} results instead of {len(expected)}"
    for i, (a, b) in enumerate(zip(expected, got)):
        why = _form_of(a, b, has_strides)
        if why:
            return f"result {i}: {why}"
    return ""


def _form_of(a: Any, b: Any, has_strides: bool) -> str:
    if not isinstance(a, torch.Tensor):
        return "" if a == b else f"{b!r} instead of {a!r}"
    if not isinstance(b, torch.Tensor):
        return "it is no tensor"
    for what in ("dtype", "shape", "device"):
        if getattr(a, what) != getattr(b, what):
            return f"{what} {getattr(b, what)} instead of {getattr(a, what)}"
    if has_strides and not _same_strides(a, b):
        return f"strides {b.stride()} instead of {a.stride()}"
    return ""


def _same_strides(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.numel() == 0 or all(
        n <= 1 or x == y for n, x, y in zip(a.shape, a.stride(), b.stride())
    )


def _tensors(
    expected: Sequence[Any], got: Sequence[Any]
) -> Iterator[tuple[int, torch.Tensor, Any]]:
    """(number, the one, the other) of each result that is a tensor."""
    for i, (a, b) in enumerate(zip(expected, got, strict=True)):
        if isinstance(a, torch.Tensor):
            yield i, a, b


def _devices(arguments: Sequence[Any]) -> set[torch.device]:
    return {argument.device for argument in arguments if isinstance(argument, torch.Tensor)}


def _ordered(like: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its dimensions as they lie in the memory of `like`, so that
    its elements can be looked at in turn without a copy."""
    strides = like.stride()
    return tensor.permute(sorted(range(like.dim()), key=lambda dim: -strides[dim]))


def _is_zero(*tensors: torch.Tensor | None) -> bool:
    return not any(tensor is not None and bool(tensor.any()) for tensor in tensors)


def _beyond_slack(
    a: torch.Tensor, b: torch.Tensor, length: int, precision: str, is_half_allowed: bool
) -> str:
    """ "" if a and b differ by rounding only, else what differs. The slack of the
    table is allowed, or half of it."""
    if a is b:
        return ""
    if not a.dtype.is_floating_point:
        return "" if torch.equal(a, b) else "other values"
    if _is_zero(a):
        return "" if _is_zero(b) else "an error of numbers where eager has zeros"
    floor = tolerance.roundoff_floor(a.dtype, length)
    like = compare.Expected(
        "",
        a,
        None,
        tolerance=floor,
        rms_tolerance=tolerance.rms_floor(a.dtype, length),
        slice_tolerance=max(slices.TOLERANCE_MIN, slices.FLOOR_TIMES * floor),
    )
    if precision == "tf32" and a.dtype == torch.float32:
        like.tf32_rms, like.tolerance, like.rms_tolerance = (
            0.0,
            tolerance.TF32_NEAR_MAX,
            tolerance.TF32_NEAR_MAX,
        )
    with error_sums.limited(ELEMENTS_MAX):
        made = compare.near(_ordered(a, a), like)
        if not is_half_allowed:
            made.tolerance, made.rms_tolerance = 2 * made.tolerance, math.inf
            made.slices = None
        found = compare.compare(_ordered(a, b), made)
    if not found.reason:
        return ""
    return f"an error of {found.error:.2g}" if found.beyond else found.reason


def _described(
    number: int, got: torch.Tensor, expected: compare.Expected, reason: str, lacking: str
) -> str:
    """A refused result for people: both errors, and the tolerance."""
    if lacking:
        return (
            f"result {number}: an error of "
            f"{compare.errors_of(got, expected)[0]:.2g} against eager; there "
            f"is no reference in a wider type: {lacking}"
        )
    if not got.dtype.is_floating_point:
        return f"result {number}: {reason}"
    peak, rms = compare.errors_of(got, expected)
    return (
        f"result {number}: an error of {peak:.2g} at most and {rms:.2g} RMS; "
        f"eager's are {expected.framework_error:.2g} and "
        f"{expected.framework_rms:.2g} against a reference in a wider type, "
        f"which allow {expected.tolerance:.2g} and "
        f"{expected.rms_tolerance:.2g} ({reason})"
    )
