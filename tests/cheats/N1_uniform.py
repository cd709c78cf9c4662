"""N1: the same small number everywhere.

Reference: softmax
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, 1 / x.shape[-1])
