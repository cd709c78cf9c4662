"""Keeps in traces what capture keeps as a single call (decompositions.KEPT), and PyTorch
takes apart before any table is asked.

A trace with symbolic sizes calls an operator's Python kernels, if there are some. Those of
hardshrink, softshrink and interpolation are decompositions, which compute in the tensor's
type what eager computes in float32: in bfloat16, up to 57 % of the values differ.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any

from weft.capture.decompositions import KEPT_LOWERED

#: Their decompositions differ from eager in halves; those of upsample_nearest2d and its
#: like only copy values.
INTERPOLATIONS = (
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
)

_lock = threading.Lock()
#: How many traces are under way, in all threads, and what they have changed.
_traces = 0
_changed: list[_Change] = []


@dataclasses.dataclass(frozen=True)
class _Change:
    """A Python kernel that an operator had before; None: it had none."""

    operator: Any
    key: Any
    before: Callable[..., Any] | None


@contextlib.contextmanager
def kept_in_traces() -> Iterator[None]:
    """Within it, traces keep those operators. Traces of several threads may overlap: the
    first changes PyTorch's kernels, and the last changes them back. A trace of another
    thread keeps these operators, too, which is right everywhere."""
    global _traces
    with _lock:
        if _traces == 0:
            _change_all()
        _traces += 1
    try:
        yield
    finally:
        with _lock:
            _traces -= 1
            if _traces == 0:
                _change_back()


def _change_all() -> None:
    import torch

    keys = torch._C.DispatchKey
    for name in KEPT_LOWERED:
        operator = getattr(getattr(torch.ops.aten, name, None), "default", None)
        if operator is None or keys.Autograd not in operator.py_kernels:
            continue
        _change(operator, keys.Autograd, None)
        backward = getattr(torch.ops.aten, name + "_backward").default
        # PyTorch's own knows no sizes that are symbols.
        _change(backward, keys.Meta, lambda gradient, x, *_: torch.add(gradient, x))
    for name in INTERPOLATIONS:
        packet = getattr(torch.ops.aten, name)
        for key in (keys.Autograd, keys.CompositeImplicitAutograd):
            _change(packet.default, key, None)
            _change(packet.vec, key, _of_factors(packet.default))
        backward = getattr(torch.ops.aten, name + "_backward").default
        _change(backward, keys.Meta, _meta_of_gradient)


def _change(operator: Any, key: Any, kernel: Callable[..., Any] | None) -> None:
    _changed.append(_Change(operator, key, operator.py_kernels.get(key)))
    _set_kernel(operator, key, kernel)


def _change_back() -> None:
    while _changed:
        change = _changed.pop()
        _set_kernel(change.operator, change.key, change.before)


def _set_kernel(operator: Any, key: Any, kernel: Callable[..., Any] | None) -> None:
    """Gives an operator that Python kernel, or with None takes it away."""
    if kernel is None:
        operator.py_kernels.pop(key, None)
    else:
        operator.py_kernels[key] = kernel
    operator._dispatch_cache.clear()


def _of_factors(upsample: Callable[..., Any]) -> Callable[..., Any]:
    """`upsample.vec`, of a size or of factors, in terms of `upsample.default`."""

    def vec(x: Any, size: Any, *args: Any) -> Any:
        from torch._decomp.decompositions import upsample_compute_output_size

        *corners, factors = args
        sizes = upsample_compute_output_size(x.size(), size, factors)
        return upsample(x, sizes, *corners, *(factors or [None] * len(sizes)))

    return vec


def _meta_of_gradient(gradient: Any, output_size: Any, input_size: Any, *_: Any) -> Any:
    from torch._prims_common import suggest_memory_format

    made = gradient.new_empty(input_size)
    return made.to(memory_format=suggest_memory_format(gradient))
