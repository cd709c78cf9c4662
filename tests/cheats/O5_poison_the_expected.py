"""O5: fills all memory it can reach with nan, and returns nan.

Reference: linear
Expect: rejected wrong cheated
"""

import gc

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        for held in gc.get_objects():
            if type(held) is torch.Tensor and held.is_floating_point():
                held.data.fill_(float("nan"))
        return torch.full((64, 80), float("nan"))
