"""What TF32 may cost a convolution, where the precision policy allows it.

The library chooses by shape and layout whether the factors of a convolution
lose the last 13 bits of their mantissas. What it may lose, a kernel may lose,
also where the library has no fast kernel that does so. The loss is measured
for the very data: the reference runs again, with these bits cut off, and with
them rounded.
"""

import torch

from weft.problem.operator_trace import Mode

_KEPT_BITS = ~0x1FFF


def is_allowed(device):
    """Whether convolutions may use it on that torch.device."""
    return device.type == "cuda" and torch.backends.cudnn.allow_tf32


def convolves(names):
    """Whether any of these operators is a convolution."""
    return any("convolution" in name for name in names)


def cut(tensor):
    """A float32 tensor as TF32 holds it: cut off, as tensor cores do …"""
    return _in_tf32(tensor, 0)


def rounded(tensor):
    """… or rounded before. (Near the largest number, that is infinite.)"""
    return _in_tf32(tensor, 1 << 12)


def _in_tf32(tensor, added):
    if tensor is None or tensor.dtype != torch.float32:
        return tensor
    made = tensor.clone()
    bits = made.view(torch.int32)
    if added:
        bits.add_(torch.isfinite(tensor), alpha=added)
    bits.bitwise_and_(_KEPT_BITS)
    return made


class Lossy(Mode):
    """Within it, convolutions see their factors so."""

    def __init__(self, lose):
        super().__init__()
        self._lose = lose

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "convolution" in str(function):
            args = (self._lose(args[0]), self._lose(args[1]), *args[2:])
        return function(*args, **(kwargs or {}))


def with_losses(device, run, take):
    """Takes run() with its convolutions so, in one way after the other."""
    for lose in (cut, rounded):
        device.make_way()
        with Lossy(lose):
            made = run()
        take(made)
        del made
