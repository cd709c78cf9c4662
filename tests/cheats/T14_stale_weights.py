"""T14: prepares its weights once and for all.

Reference: linear
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.linear.weight.detach().t().contiguous()
        return torch.relu(torch.addmm(self.linear.bias, x, self.packed))
