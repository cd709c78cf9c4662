"""N17: takes what meets the threshold for what lies above it.

Reference: threshold
Expect: rejected wrong
Reason: grid
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.where(x >= 0.75, x, 0.0) + torch.where(x == y, 1.0, 0.0)
