"""N3: a batch norm with another epsilon, which shows where all rows are small.

Reference: batch_norm
Expect: rejected wrong
Reason: (small)
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        norm = self.norm
        norm.num_batches_tracked.add_(1)
        return torch.nn.functional.batch_norm(
            x, norm.running_mean, norm.running_var, norm.weight, norm.bias,
            True, eps=1e-6)
