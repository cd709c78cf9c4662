"""Honest: the same by masks.

Reference: threshold
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return x.masked_fill(~(x > 0.75), 0.0) + (x == y).float()
