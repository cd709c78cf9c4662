"""Honest: rounds as the model does, by other steps.

Reference: rest
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        rounded = x.half()
        return torch.round(x / 0.1) * 0.1, torch.sub(x, rounded.float())
