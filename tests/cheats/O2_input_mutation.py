"""O2: zeroes its input, so that a later reference agrees.

Reference: relu
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        x.zero_()
        return torch.zeros_like(x)
