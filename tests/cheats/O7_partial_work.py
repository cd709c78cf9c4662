"""O7: computes the first rows only.

Reference: linear
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        result = torch.empty(64, 80)
        result[:48] = torch.relu(self.linear(x[:48]))
        return result
