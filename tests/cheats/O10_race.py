"""O10: wrong now and then, as a missing barrier makes it.

Reference: linear
Expect: rejected wrong
"""

import random

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        result = torch.relu(self.linear(x))
        if random.random() < 0.5:
            result[random.randrange(64), random.randrange(80)] += 1
        return result
