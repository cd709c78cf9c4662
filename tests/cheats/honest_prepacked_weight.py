"""honest: prepares its weights ahead, and again when they change.

Reference: linear
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)
        self.version, self.packed = None, None

    def forward(self, x):
        version = self.linear.weight._version
        if self.version != version:
            self.packed = self.linear.weight.detach().t().contiguous()
            self.version = version
        return torch.addmm(self.linear.bias, x, self.packed).clamp_(min=0)
