"""honest: looks at its input, though it matters only for nan.

Reference: one
Expect: accepted not_discriminating
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.where(torch.isfinite(x), 1.0, float("nan"))
