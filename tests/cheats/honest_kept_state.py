"""Keeps copies in new tensors, where the reference writes into its own.

Reference: levels
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("given", torch.randn(64, 128))
        self.register_buffer("level", torch.randn(64, 128))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls.add_(1)
        level = torch.tanh((x - self.given + self.level) / self.calls)
        self.given = x.clone()
        self.level = level.clone()
        return level, level.clone()
