"""S5: the reference, word for word.

Reference: linear
Expect: accepted
Operators: aten.addmm.default
Remark: no kernel of its own
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        return torch.relu(self.linear(x))
