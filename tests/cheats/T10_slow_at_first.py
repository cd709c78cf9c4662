"""T10: slow while it warms up: harmless, medians of many rounds count.

Reference: linear
Expect: accepted
"""

import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 2:
            time.sleep(0.02)
        return torch.relu(self.linear(x))
