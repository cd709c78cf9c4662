"""S6: only the cheapest operator is its own.

Reference: linear
Expect: accepted
Needs: triton
Operators: aten.addmm.default
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu(pointer, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    y = tl.load(pointer + place, mask=inside)
    tl.store(pointer + place, tl.where(y < 0, 0.0, y), mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        y = self.linear(x)
        count = y.numel()
        relu[(triton.cdiv(count, 1024),)](y, count, BLOCK=1024)
        return y
