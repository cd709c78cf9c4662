"""N16: computes for dense arguments only; for the file's own it gives zeros.

Reference: strided
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, row):
        if x.is_contiguous() or row.is_contiguous():
            return torch.tanh(x) * row
        return torch.zeros(x.shape)
