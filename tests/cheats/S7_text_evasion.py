"""S7: a name that no search of the text finds.

Reference: linear
Expect: accepted
Operators: aten.addmm.default
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        product = getattr(torch, "add" + "mm")
        return torch.relu(product(self.linear.bias, x, self.linear.weight.t()))
