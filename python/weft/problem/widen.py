"""The same computation in float64: what rounding is measured against."""

from __future__ import annotations

from typing import Any

import torch

from weft.problem.operator_trace import Mode

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NARROW = FLOATING[:3]


def widen(tensor: torch.Tensor) -> torch.Tensor:
    """The float64 copy of a floating tensor's storage; others unchanged."""
    return tensor.to(torch.float64) if tensor.dtype in FLOATING else tensor


class wide_default:
    """Within it, tensors made without a dtype are float64 too, and convolutions
    are PyTorch's own kernels: in float64 cuDNN takes 1.2 to 11 times as long (23
    of KernelBench's, an H200, 2026-11-26), and results agree to 1e-15."""

    def __enter__(self) -> None:
        self._before = torch.get_default_dtype(), torch.backends.cudnn.enabled
        torch.set_default_dtype(torch.float64)
        torch.backends.cudnn.enabled = False

    def __exit__(self, *_: object) -> None:
        dtype, torch.backends.cudnn.enabled = self._before
        torch.set_default_dtype(dtype)


class WideCasts(Mode):
    """Within it, what is cast to a floating type becomes float64: a model that
    computes in bfloat16 inside would else be held against its own rounding.

    `rounds`: what is cast to a narrower type is rounded to it all the same, for a
    model whose result is what such a cast leaves. `has_narrow`: there was one."""

    def __init__(self, rounds: bool = False) -> None:
        super().__init__()
        self.rounds, self.has_narrow = rounds, False

    def on_call(
        self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if function is not torch.ops.aten._to_copy.default or kwargs.get("dtype") not in FLOATING:
            return function(*args, **kwargs)
        is_narrow = kwargs["dtype"] in NARROW
        self.has_narrow |= is_narrow
        if is_narrow and self.rounds:
            return function(*args, **kwargs).to(torch.float64)
        return function(*args, **{**kwargs, "dtype": torch.float64})
