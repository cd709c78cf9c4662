"""honest: normalises and keeps the running statistics by hand.

Reference: batch_norm
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        norm = self.norm
        mean, var = x.mean((0, 2)), x.var((0, 2), correction=0)
        count = x.shape[0] * x.shape[2]
        with torch.no_grad():
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(var * count / (count - 1), norm.momentum)
            norm.num_batches_tracked.add_(1)
        scale = norm.weight * torch.rsqrt(var + norm.eps)
        return (x - mean[:, None]) * scale[:, None] + norm.bias[:, None]
