"""honest: a Triton kernel; without a GPU its interpreter runs it, untimed.

Reference: relu
Expect: accepted
Needs: triton
"""

import torch
import triton
import triton.language as tl


@triton.jit
def relu(x_pointer, y_pointer, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x = tl.load(x_pointer + place, mask=inside)
    y = tl.where(x < 0, 0.0, x)
    tl.store(y_pointer + place, y, mask=inside)


def kernel_function(x):
    y = torch.empty_like(x)
    count = x.numel()
    relu[(triton.cdiv(count, 1024),)](x, y, count, BLOCK=1024)
    return y
