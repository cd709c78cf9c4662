"""N7: the operands in float16, the sum in float32.

Reference: linear
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        x, weight = x.half().float(), self.linear.weight.half().float()
        return torch.relu(torch.addmm(self.linear.bias, x, weight.t()))
