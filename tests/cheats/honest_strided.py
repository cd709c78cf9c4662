"""Honest: reads both arguments as they lie.

Reference: strided
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, row):
        assert x.stride() == (192, 2) and row.stride() == (0, 1)
        return torch.mul(torch.tanh(x.contiguous()), row[:1])
