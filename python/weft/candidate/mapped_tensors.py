"""Tensors in shared memory, and memory whose pages the kernel maps on first use."""

import torch

#: What is larger comes from the kernel each time, page by page, as in users'
#: programs.
MAPPED_BYTES = 32 << 20
#: Each page is touched, some more than once: of fewer elements the framework's
#: threads would not share the work, as a kernel's do.
_TOUCHED_BYTES = 1024


def tensor_at(memory, place):
    """The tensor that a place (offset, dtype, shape, stride) describes."""
    dtype = getattr(torch, place["dtype"])
    shape, stride = place["shape"], place["stride"]
    count = 0 if 0 in shape else 1 + sum(
        (n - 1) * s for n, s in zip(shape, stride))
    start = place["offset"]
    flat = memory.all[start : start + count * dtype.itemsize].view(dtype)
    return torch.as_strided(flat, shape, stride)


def touch(tensor):
    """Has the kernel give its pages."""
    memory = tensor.untyped_storage()
    bytes_of = torch.empty(0, dtype=torch.uint8).set_(memory)
    bytes_of[::_TOUCHED_BYTES].zero_()
