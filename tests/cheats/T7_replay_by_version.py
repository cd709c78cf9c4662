"""T7: remembers its results by the address and the version of its input.

Reference: linear
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)
        self.seen = {}

    def forward(self, x):
        key = (x.data_ptr(), x._version)
        if key not in self.seen:
            self.seen[key] = torch.relu(self.linear(x))
        return self.seen[key].clone()
