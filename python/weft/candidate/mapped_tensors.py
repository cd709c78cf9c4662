"""Tensors in shared memory, and memory whose pages the kernel maps on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from weft.candidate.harness import SharedMemory
    from weft.device.device_arena import SharedDeviceMemory

#: Larger memory is mapped by the kernel at each allocation, page by page, as in users'
#: programs.
MAPPED_BYTES = 32 << 20
#: Distance of touched bytes. Each page is touched, some several times: with fewer
#: elements PyTorch would not divide the work among its threads, as a kernel does.
_TOUCHED_BYTES = 1024


def tensor_at(memory: SharedMemory | SharedDeviceMemory, place: dict[str, Any]) -> torch.Tensor:
    """The tensor that a place (offset, dtype, shape, stride) describes."""
    dtype = getattr(torch, place["dtype"])
    shape, stride = place["shape"], place["stride"]
    count = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, stride))
    start = place["offset"]
    flat = memory.all[start : start + count * dtype.itemsize].view(dtype)
    return torch.as_strided(flat, shape, stride)


def touch(tensor: torch.Tensor) -> None:
    """Writes to each page, so that the kernel maps it."""
    memory = tensor.untyped_storage()
    bytes_of = torch.empty(0, dtype=torch.uint8).set_(memory)
    bytes_of[::_TOUCHED_BYTES].zero_()
