"""N10: a counter written down, as it is after the first call of all.

Reference: levels
Expect: rejected wrong
Reason: (next)
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
        self.calls.fill_(1)
        level = torch.tanh(x - self.given + self.level)
        self.given.copy_(x)
        self.level.copy_(level)
        return level, level.clone()
