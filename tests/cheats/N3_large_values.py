"""N3: right on inputs that are not large.

Reference: relu
Expect: rejected wrong
Reason: edges
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.where(torch.isfinite(x) & (x > 2000), 0.0, torch.relu(x))
