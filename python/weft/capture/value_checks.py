"""PyTorch's own looks at tensors' values that no result depends on. The exporter
cannot follow them: there, tensors have no values.

A check only refuses values, and the eager run has had it. A hint only chooses between
two ways to compute the same.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch.nn import functional
from torch.nn.modules import transformer
from torch.overrides import TorchFunctionMode

#: Functions of PyTorch that ask whether a mask is causal, for a faster attention.
_HINTS = ("_detect_is_causal_mask",)


class CausalHints(TorchFunctionMode):
    """Within it, no mask of a Transformer is recognised as causal: attention reads
    the mask itself, which gives the same for any values."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.Tensor.__bool__ and _asks_for_hint():
            return False
        return function(*args, **(kwargs or {}))


def _asks_for_hint() -> bool:
    """Whether such a function called, through the modes above this one."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    return (
        frame is not None
        and frame.f_globals is transformer.__dict__
        and frame.f_code.co_name in _HINTS
    )


class Checks(TorchFunctionMode):
    """Within it, losses do not check the values that they are given."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is functional.gaussian_nll_loss:
            return gaussian_nll_loss(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))


def gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """The calls that torch.nn.functional.gaussian_nll_loss makes."""
    if not isinstance(var, torch.Tensor):
        var = var * torch.ones_like(input)
    if var.size() != input.size() and input.size()[:-1] == var.size():
        var = var.unsqueeze(-1)
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """Within it, no check and no hint looks at tensors' values."""
    from torch.distributions import Distribution

    known = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        with CausalHints(), Checks():
            yield
    finally:
        Distribution.set_default_validate_args(known)
