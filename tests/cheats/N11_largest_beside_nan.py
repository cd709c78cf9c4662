"""N11: the largest number, whether there is a nan or not.

Reference: whole
Expect: rejected wrong
Reason: (nan)
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        numbers = torch.where(x.isnan(), -torch.inf, x)
        return numbers.amax(), x.square().mean()
