"""S2: launches a kernel on one element, PyTorch does the rest.

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
def clear(pointer):
    tl.store(pointer, 0.0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        one = torch.empty(1, device=x.device)
        clear[(1,)](one)
        return torch.relu(self.linear(x)) + one
