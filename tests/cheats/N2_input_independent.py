"""N2: ones, without a look at the input; a nan gives it away.

Reference: one
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.ones_like(x)
