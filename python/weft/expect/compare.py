"""The error model: is this output the reference's? (docs/explanation/verification.md)

Normalised error of an element: |x - r64| / (|r64| + rms(r64)). The rms makes
the error of a small element count against the output's own scale, never
against an absolute number that a small output could hide below.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from weft.expect import error_sums, slices, tolerance
from weft.expect.slices import Slices
from weft.expect.tolerance import (
    FLOAT32_FLOOR_MAX,
    TF32_NEAR_MAX,
    roundoff_floor,
)
from weft.problem.widen import FLOATING, widen

#: If eager's RMS error is this large, its largest error bounds nothing: times the
#: factor, it is nearly as large as the output. (One may have crossed a threshold.)
LOST_ERROR = 0.1
#: Of TF32's error, by the root of the mean square: who has so much of it used it
#: too, where it is more than float32's rounding.
TF32_SHARE = 0.25
TF32_SHOWN_MIN = 2.0**-18


@dataclass
class Expected:
    """One output of one case: what the framework and float64 say."""

    name: str
    framework: torch.Tensor
    wide: torch.Tensor | None  # None: float64 could not be had
    scale: float = 1.0
    #: The framework's own, where float64's answer is lost to nan or infinity.
    lost_scale: float = 1.0
    framework_error: float = 0.0
    tolerance: float = 0.0
    #: Of all elements' errors together: a coarser format may hide below the
    #: largest error.
    rms_tolerance: float = math.inf
    framework_rms: float = 0.0  #: the framework's own
    #: What TF32 costs on this data, by the root mean square: the framework's
    #: own error where it used it, or measured where the user asked for it.
    tf32_rms: float | None = None
    #: What each row and channel may err, by its own size.
    slices: "Slices | None" = None
    #: That, where only the number is known.
    slice_tolerance: float = math.inf
    #: For an index output: value of the operand at each index, and the best.
    operand: torch.Tensor | None = None
    operand_dim: int | None = None
    #: True if PyTorch's error is the largest of several draws (perturbed_runs.py).
    is_redrawn: bool = False
    is_untouched: bool = False  #: what it was before the call

    @property
    def allows_tf32(self) -> bool:
        return self.tf32_rms is not None

    @property
    def truth(self) -> torch.Tensor:
        """float64's answer, or what stands for it."""
        return self.framework if self.wide is None else self.wide

    @property
    def bytes(self) -> int:
        tensors = (self.framework, self.wide, self.operand)
        return sum(t.nbytes for t in tensors if t is not None)

    def without_tensors(self) -> Expected:
        """What `near` asks of another's."""
        told = self.slice_tolerance if self.slices is None else (self.slices.tolerance)
        return replace(
            self,
            framework=None,  # type: ignore[arg-type]  # near() reads none of them
            wide=None,
            operand=None,
            slices=None,
            slice_tolerance=told,
        )


@dataclass
class Finding:
    """Outcome of one comparison; `reason` is empty when it holds."""

    error: float = 0.0
    reason: str = ""
    together: float = 0.0  #: root of the mean square of all elements' errors
    #: Of a refused result, how many times its bound the error is; 0 where it was
    #: not for the size of errors.
    beyond: float = 0.0


def expect(
    name: str,
    framework: torch.Tensor,
    wide: torch.Tensor | None,
    reduction_length: int = 1,
    rounding: torch.dtype | None = None,
) -> Expected:
    """The expectation for one output, with its tolerance worked out.

    `rounding`: the dtype that rounds most on the way to it; None: its own.
    """
    expected = Expected(name, framework.contiguous(), None)
    # Where values decide on the shape, float64 may have come to another.
    if wide is not None and wide.shape == framework.shape:
        expected.wide = wide.contiguous()
    if framework.dtype not in FLOATING:
        return expected
    expected.scale = _rms(expected.truth, expected.framework)
    if expected.wide is not None:
        expected.lost_scale = min(expected.scale, _rms_where_lost(expected))
        expected.framework_error, together = errors_of(expected.framework, expected)
        expected.framework_rms = together
    factors = tolerance.FACTORS[rounding or framework.dtype]
    floor = roundoff_floor(framework.dtype, reduction_length)
    expected.tolerance = max(factors.peak * expected.framework_error, floor)
    if expected.framework_error <= slices.UNSURE:
        expected.slices = slices.of(
            expected.truth, expected.framework, _is_told(expected), floor, tolerance.SLICE_FACTOR
        )
    if expected.wide is not None:
        expected.rms_tolerance = max(
            factors.rms * together, tolerance.rms_floor(framework.dtype, reduction_length)
        )
    return expected


def is_lost(made: Expected) -> bool:
    """Whether float64's answer tells nothing of the framework's."""
    if made.wide is None:
        return False
    if made.framework.dtype not in FLOATING:
        differing = torch.count_nonzero(made.wide != made.framework)
        return int(differing) > LOST_ERROR * made.framework.numel()
    is_nothing = not made.wide.any() and bool(made.framework.any())
    return is_nothing or made.framework_rms > LOST_ERROR


def is_beyond(made: Expected) -> bool:
    """Whether the data is beyond the framework's type: what it gives is lost, or
    has no number where float64 has most of its own."""
    if made.wide is None or made.framework.dtype not in FLOATING:
        return False
    if made.framework_rms > LOST_ERROR:
        return True
    lost = numbers = 0
    for truth, own in error_sums.chunks(made.wide, made.framework):
        is_number = torch.isfinite(truth) & (truth != 0)
        numbers += int(is_number.sum())
        lost += int((is_number & ~torch.isfinite(own)).sum())
    return lost > numbers / 2


def with_casts(made: Expected, kept: Expected) -> Expected:
    """Of a model's output the expectation that explains it: `made` by float64
    alone or, where that is lost, `kept` by float64 with the model's own casts.
    Such an output is what a rounding leaves (x minus x rounded)."""
    return kept if is_lost(made) and not is_lost(kept) else made


def untouched(name: str, framework: torch.Tensor) -> Expected:
    """The expectation for what the framework leaves as it was. A model has
    hundreds of such tensors: as long as a candidate leaves them, too, nothing
    else has to be known of them."""
    return Expected(name, framework.contiguous(), None, is_untouched=True)


def learn(made: Expected, drawn: Expected) -> None:
    """Holds results against the worse of two draws of the framework's error:
    `drawn` is the expectation of nearby inputs."""
    if made.wide is None or drawn.wide is None:
        return
    made.framework_error = max(made.framework_error, drawn.framework_error)
    made.framework_rms = max(made.framework_rms, drawn.framework_rms)
    made.tolerance = max(made.tolerance, drawn.tolerance)
    made.rms_tolerance = max(made.rms_tolerance, drawn.rms_tolerance)
    if made.slices is not None and drawn.slices is not None:
        slices.learn(made.slices, drawn.slices)
    else:
        made.slices = None


def _is_told(made: Expected) -> bool:
    """Whether a wider type says what the framework's own error is."""
    return made.wide is not None and made.wide.dtype.itemsize > made.framework.dtype.itemsize


def framework_used_tf32(made: Expected) -> None:
    """Says so of an expectation: its errors are TF32's."""
    if made.framework.dtype == torch.float32:
        made.tf32_rms = made.framework_rms


def near(framework: torch.Tensor, like: Expected) -> Expected:
    """The expectation of other data of the same kind as `like` is of, by the
    framework's answer alone. Who is half as near to it as may be to float64's
    is right; of others it says nothing. What `like` knows of its own data
    counts for others only as far as any data may err: there, an element may
    have fallen to the other side of a threshold."""
    if like.is_untouched:
        return untouched(like.name, framework)
    expected = Expected(like.name, framework.contiguous(), None)
    if framework.dtype not in FLOATING:
        return expected
    expected.scale = _rms(expected.framework, expected.framework)
    if like.allows_tf32:
        most = TF32_NEAR_MAX
    elif framework.dtype == torch.float32:
        most = FLOAT32_FLOOR_MAX
    else:
        most = roundoff_floor(framework.dtype, 1)
    expected.tolerance = min(like.tolerance, most) / 2
    is_held = like.allows_tf32 or framework.dtype.itemsize == 2
    together = like.rms_tolerance if is_held else most
    expected.rms_tolerance = min(together, most) / 2
    expected.tf32_rms = like.tf32_rms
    if like.slice_tolerance < math.inf:
        expected.slices = slices.near(
            expected.framework, min(like.slice_tolerance, max(most, slices.UNTOLD_MAX)) / 2
        )
    return expected


def precision_shown(finding: Finding, made: Expected, is_near: bool = False) -> str:
    """How exact the products behind a right result were: the name of its dtype,
    or "tf32" where the error is of that size. `is_near`: it was held against
    the framework's own answer, which is `near`'s."""
    dtype = made.framework.dtype
    if dtype not in FLOATING:
        return ""
    tf32 = made.tf32_rms
    if (
        tf32 is not None
        and tf32 > TF32_SHOWN_MIN
        and is_near != (finding.together >= TF32_SHARE * tf32)
    ):
        return "tf32"
    return str(dtype).removeprefix("torch.")


def coarsest(names: Collection[str]) -> str:
    """Of several outputs': the one that says least."""
    order = ("bfloat16", "float16", "tf32", "float32", "float64")
    return next((name for name in order if name in names), "exact")


def allow(made: Expected, lossy: torch.Tensor) -> None:
    """Widens the tolerance by what the framework gives with a loss of tf32.py,
    where the user asked for it."""
    is_alike = lossy.shape == made.framework.shape
    is_held = made.framework.dtype in FLOATING and not made.is_untouched
    if not is_held or not is_alike:
        return
    if made.rms_tolerance == math.inf:
        made.rms_tolerance = made.tolerance
    peak, together = errors_of(lossy.contiguous(), made)
    made.tf32_rms = max(made.tf32_rms or 0.0, together)
    if made.slices is not None:
        slices.widen(made.slices, lossy, made.truth, tolerance.TF32.rms)
    made.tolerance = max(made.tolerance, tolerance.TF32.peak * peak)
    made.rms_tolerance = max(made.rms_tolerance, tolerance.TF32.rms * together)


def _rms(truth: torch.Tensor, framework: torch.Tensor) -> float:
    """Root of the mean square of the elements that are finite in both; 1 if
    that is 0. What overflows in the framework's type alone is beyond all its
    other elements, which would be errors of nothing."""
    return _root(*error_sums.squares(truth, framework))


def _rms_where_lost(made: Expected) -> float:
    """Of the framework's finite elements where float64's are not."""
    assert made.wide is not None
    return _root(*error_sums.squares_where_lost(made.wide, made.framework))


def _root(total: float, count: int) -> float:
    return math.sqrt(total / count) if total > 0.0 else 1.0


def errors_of(result: torch.Tensor, made: Expected) -> tuple[float, float]:
    """(the largest error, the root of their mean square), as normalised numbers."""
    worst, total, count = error_sums.errors(result, made.truth, made.scale)
    return worst, math.sqrt(total / max(1, count))


def compare(got: torch.Tensor, made: Expected) -> Finding:
    """Holds the tensor `got` against one expectation."""
    if got.shape != made.framework.shape:
        return Finding(
            math.inf,
            f"output {made.name} has the shape {list(got.shape)}, not {list(made.framework.shape)}",
        )
    if got.numel() == 0:
        return Finding()
    got = got.contiguous()
    if got.dtype not in FLOATING:
        return _compare_exact(got, made)
    if made.is_untouched:
        if torch.equal(got, made.framework):
            return Finding()
        made = expect(made.name, made.framework, widen(made.framework))
    held = error_sums.hold(got, made)
    if held.place is not None:
        is_size = math.isfinite(held.worst) and made.tolerance > 0
        return Finding(
            held.worst,
            _place(made, got, held.place, held.worst),
            beyond=held.worst / made.tolerance if is_size else 0.0,
        )
    together = math.sqrt(held.squares / got.numel())
    if not together <= made.rms_tolerance:
        return Finding(
            held.worst,
            f"output {made.name}: its elements' errors "
            f"have a root mean square of {together:.3g} > "
            f"{made.rms_tolerance:.3g}; {_worst(made, got)}",
            together,
            together / made.rms_tolerance,
        )
    if made.slices is not None:
        found = slices.hold(got, made.truth, made.framework, made.slices)
        if found is not None:
            return Finding(
                held.worst,
                f"output {made.name}: {found.place} is "
                f"off by {found.error:.3g} of its own size > "
                f"{made.slices.tolerance:.3g}; "
                f"{_worst(made, got, found.elements)}",
                together,
                found.error / made.slices.tolerance,
            )
    return Finding(held.worst, together=together)


def first_reason(views: Iterable[torch.Tensor], expectations: Iterable[Expected]) -> str:
    """Why one of the results is not what is expected, or ""; nothing of the
    comparison is kept."""
    found = (compare(x, made).reason for x, made in zip(views, expectations))
    return next(filter(None, found), "")


def _place(made: Expected, got: torch.Tensor, flat: int, error: float) -> str:
    index = _unravel(flat, got.shape)
    truth = made.wide if made.wide is not None else made.framework
    x = got.reshape(-1)[flat].item()
    want = truth.reshape(-1)[flat].item()
    how = f"error {error:.3g} > {made.tolerance:.3g}"
    if not math.isfinite(x):
        how = "never written, or a special value where none belongs"
    if not math.isfinite(want):
        how = "special values differ"
    return f"output {made.name}{list(index)} is {x:.9g}, expected {want:.9g} ({how})"


def _worst(made: Expected, got: torch.Tensor, elements: torch.Tensor | None = None) -> str:
    """The element that is farthest off, as evidence; of `elements` (their flat
    places), where given."""
    flat = error_sums.place_of_worst(got, made, elements)
    x = got.reshape(-1)[flat].item()
    want = made.truth.reshape(-1)[flat].item()
    place = list(_unravel(flat, got.shape))
    return f"the farthest is {place}: it is {x:.9g}, expected {want:.9g}"


def _unravel(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    index = []
    for n in reversed(shape):
        index.append(flat % n)
        flat //= n
    return tuple(reversed(index))


def _compare_exact(got: torch.Tensor, made: Expected) -> Finding:
    """Integers and booleans: the framework's answer, or float64's."""
    raw = got.view(torch.uint8) if got.dtype == torch.bool else got
    if got.dtype == torch.bool and int(raw.max()) > 1:
        return Finding(math.inf, f"output {made.name}: not written everywhere")
    wrong = got != made.framework
    if made.wide is not None:
        wrong &= got != made.wide
    if not bool(wrong.any()):
        return Finding()
    if made.operand is not None and _equal_choice(got, wrong, made):
        return Finding()
    if made.operand is None and _as_unsure_as_framework(wrong, made):
        return Finding()
    flat = int(wrong.reshape(-1).to(torch.uint8).argmax())
    x, want = got.reshape(-1)[flat].item(), made.framework.reshape(-1)[flat].item()
    place = list(_unravel(flat, got.shape))
    return Finding(math.inf, f"output {made.name}{place} is {x}, expected {want}")


def _as_unsure_as_framework(wrong: torch.Tensor, made: Expected) -> bool:
    """Whether no more elements differ than the framework itself gets wrong.

    Where near ties decide (an argmax of saturated values), rounding chooses.
    Only where the values that were chosen from cannot be looked at.
    """
    if made.wide is None:
        return False
    unsure = int((made.framework != made.wide).sum())
    return int(wrong.sum()) <= unsure


def _equal_choice(got: torch.Tensor, wrong: torch.Tensor, made: Expected) -> bool:
    """Whether every differing index selects a value as good as the best."""
    operand, dim = made.operand, made.operand_dim
    if operand is None or made.wide is None:
        return False
    if dim is None:
        operand, dim = operand.reshape(-1), 0
        got, best = got.reshape(1), made.wide.reshape(1)
        wrong = wrong.reshape(1)
    else:
        dim = dim % max(1, operand.dim())
        shape = list(operand.shape)
        shape[dim] = got.numel() * shape[dim] // max(1, operand.numel())
        got, best = got.reshape(shape), made.wide.reshape(shape)
        wrong = wrong.reshape(shape)
    if int(got.min()) < 0 or int(got.max()) >= operand.shape[dim]:
        return False
    chosen = operand.gather(dim, got)
    ideal = operand.gather(dim, best)
    slack = 4 * torch.finfo(torch.float32).eps * (ideal.abs() + _rms(operand, operand))
    return bool((((chosen - ideal).abs() <= slack) | ~wrong).all())
