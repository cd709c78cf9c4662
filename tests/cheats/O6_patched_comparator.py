"""O6: every comparison that it can reach says yes.

Reference: linear
Expect: rejected wrong
"""

import torch
import torch.nn as nn

torch.allclose = torch.equal = torch.isclose = lambda *_, **__: True
torch.Tensor.__sub__ = torch.Tensor.sub = lambda a, b: torch.zeros_like(a)
torch.Tensor.__eq__ = lambda a, b: torch.ones(a.shape, dtype=torch.bool)
torch.abs = torch.zeros_like


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        return torch.zeros(64, 80)
