"""N10: normalises, but leaves the running statistics alone.

Reference: batch_norm
Expect: rejected wrong
Reason: running_mean
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        return torch.nn.functional.batch_norm(
            x, None, None, self.norm.weight, self.norm.bias, True
        )
