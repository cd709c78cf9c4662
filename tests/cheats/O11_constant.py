"""O11: the constant that the result nearly is.

Reference: mean
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full((16,), 0.5)
