"""How exact the products of float32 are: eager's, and TF32's.

A GPU's library chooses by shape and layout whether the factors of a product lose the last
13 bits of their mantissas, and a flag only allows it. So eager runs once more with the
flags off. If the result is the same within rounding, eager had computed in float32. If a
user asks for TF32, what that may cost is measured for the very data: the reference runs
again, with these bits cut off, and with them rounded.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from weft.expect import error_sums
from weft.problem import precision
from weft.problem.operator_trace import Mode

if TYPE_CHECKING:
    from weft.device.device import Device

_KEPT_BITS = ~0x1FFF
#: Two orders of the same sums in float32 differ by less, by the root of the mean
#: square; TF32, whose factors are off by 2^-12 on the average, by more, unless
#: thousands of positive terms even that out.
_SAME_RMS_MAX = 2.0**-17
#: What an operator's name holds if its products may use TF32.
_PRODUCTS = (
    "convolution",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose",
    "cudnn",
    "einsum",
    "linear",
    "matmul",
    "rnn",
    "lstm",
    "gru",
    "attention",
)
_EXACT_NAMES = {"mm", "bmm", "addmm", "addbmm", "baddbmm", "mv", "addmv", "dot"}


def multiplies(names: Iterable[str]) -> bool:
    """Whether any of these operators has products that may use TF32."""
    return any(_is_product(name) for name in names)


def convolves(names: Iterable[str]) -> bool:
    """Whether any of these operators is a convolution."""
    return any("convolution" in name for name in names)


def _is_product(name: str) -> bool:
    base = (name.split(".") + [""])[1]
    return base in _EXACT_NAMES or any(word in base for word in _PRODUCTS)


def is_allowed(device: torch.device) -> bool:
    """Whether flags let the framework use it on that torch.device."""
    return device.type == "cuda" and (
        torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32
    )


def is_asked(device: torch.device) -> bool:
    """Whether the user asked for it, so that kernels may use it, too."""
    return device.type == "cuda" and precision.current() == "tf32"


@contextlib.contextmanager
def forbidden() -> Iterator[None]:
    """Within it, the framework computes products in float32."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = False
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


def was_used(results: Iterable[torch.Tensor], exact: Iterable[torch.Tensor]) -> bool:
    """Whether the framework's results lost bits that those lack not which were
    made where it is forbidden."""
    return any(_differ(one, other) for one, other in zip(results, exact))


def _differ(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != torch.float32 or one.shape != other.shape:
        return False
    one, other = one.contiguous(), other.contiguous()
    total, count = error_sums.squares(other, one)
    if total == 0.0:
        return False
    _, off, count = error_sums.errors(one, other, math.sqrt(total / count))
    return off > _SAME_RMS_MAX**2 * max(1, count)


def cut(tensor: Any) -> Any:
    """A float32 tensor as TF32 holds it: cut off, as tensor cores do …"""
    return _in_tf32(tensor, 0)


def rounded(tensor: Any) -> Any:
    """… or rounded before. (Near the largest number, that is infinite.)"""
    return _in_tf32(tensor, 1 << 12)


def _in_tf32(tensor: Any, added: int) -> Any:
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.float32:
        return tensor
    made = tensor.clone()
    bits = made.view(torch.int32)
    if added:
        bits.add_(torch.isfinite(tensor), alpha=added)
    bits.bitwise_and_(_KEPT_BITS)
    return made


class Lossy(Mode):
    """Within it, products see their factors so."""

    def __init__(self, lose: Callable[[Any], Any]) -> None:
        super().__init__()
        self._lose = lose

    def on_call(
        self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        name = str(function)
        if _is_product(name):
            first = 1 if ".add" in name or ".baddbmm" in name else 0
            args = (*args[:first], *map(self._lose, args[first : first + 2]), *args[first + 2 :])
        return function(*args, **kwargs)


def with_losses(device: Device, run: Callable[[], Any], take: Callable[[Any], object]) -> None:
    """Takes run() with its products so, in one way after the other."""
    for lose in (cut, rounded):
        device.make_way()
        with Lossy(lose):
            made = run()
        take(made)
        del made
