"""The tolerance table: how much a result may err, by its dtype.

The search's judge (compare.py), the last check in the user's process and the check
of Inductor's first result (backend/implementations/first_result_check.py) read their
bounds here. Each bound is the larger of eager's own error times a factor and a slack
for rounding.
Errors are normalised: |x - r| / (|r| + rms(r)), where r is the reference.
"""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Factors:
    """How many times eager's own error a candidate may err."""

    peak: float  #: the largest error of all elements
    rms: float  #: the root mean square of all errors


_HALF = Factors(peak=2.0, rms=2.0)
_SINGLE = Factors(peak=8.0, rms=4.0)
#: By the dtype that rounds most on the way to a result. In half precision eager's
#: error is large, and every element has its share of it: FlashAttention's tests use
#: the same 2. In float32 few roundings make up eager's error, so another order of
#: operations needs more room. (bfloat16 errs 8 times as much as TF32 and TF32 2^13
#: times as much as float32, so the RMS of no coarser type passes.)
FACTORS = {
    torch.float16: _HALF,
    torch.bfloat16: _HALF,
    torch.float32: _SINGLE,
    torch.float64: _SINGLE,
}
#: Times the error of TF32, if the user asked for TF32.
TF32 = Factors(peak=4.0, rms=2.0)
#: Of one row or channel, times eager's worst: a slice has fewer elements.
SLICE_FACTOR = 8.0
#: Slack in units of roundoff, times the root of the reduction length: rounding
#: errors of a sum in another order grow so (Higham, 2002, §4.2).
ROUNDOFF_UNITS = 32.0
#: The slack of float32 stops here, whatever the length: rounding an output to 10
#: bits of mantissa (TF32, float16) errs by 2^-11 at its worst.
FLOAT32_FLOOR_MAX = 2.0**-14
#: Slack of half formats. Inputs and outputs round, sums are kept in float32. The RMS
#: of what is computed in float32 and rounded once is 0.09, of two bits less 0.3.
HALF_UNITS = 4.0
HALF_RMS_UNITS = 0.25
#: What TF32 may cost if its error is known of other data only.
TF32_NEAR_MAX = 2.0**-7
#: Inductor's code is what the user would run without weft. It gives way to eager
#: only if it exceeds a kernel's bound by this factor …
INDUCTOR_FACTOR = 8.0
#: … or, if there is no reference, by this RMS against eager.
INDUCTOR_RMS_MAX = 0.3
#: A result whose elements are smaller counts as this large: it may be 0 but for
#: rounding, and may then err by as much as it is.
INDUCTOR_SCALE_MIN = 1e-3 / INDUCTOR_RMS_MAX


def roundoff_floor(dtype: torch.dtype, reduction_length: int) -> float:
    """The normalised error that any honest order of operations may have."""
    eps = torch.finfo(dtype).eps
    if dtype.itemsize == 2:
        return HALF_UNITS * eps
    floor = ROUNDOFF_UNITS * eps * math.sqrt(max(1, reduction_length))
    return min(floor, FLOAT32_FLOOR_MAX) if dtype == torch.float32 else floor


def rms_floor(dtype: torch.dtype, reduction_length: int) -> float:
    """The same for the root mean square of all errors."""
    if dtype.itemsize == 2:
        return HALF_RMS_UNITS * torch.finfo(dtype).eps
    return roundoff_floor(dtype, reduction_length)
