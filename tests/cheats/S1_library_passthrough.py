"""S1: the framework's own product under another name.

Reference: linear
Expect: accepted
Operators: aten.mm.default
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        return (x @ self.linear.weight.t() + self.linear.bias).clamp(min=0)
