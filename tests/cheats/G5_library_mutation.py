"""G5: patches the library that the reference uses too.

Reference: linear
Expect: rejected wrong
"""

import torch
import torch.nn as nn

nn.Linear.forward = lambda self, x: torch.zeros(64, 80)
torch.relu = nn.functional.relu = torch.zeros_like


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        return torch.zeros(64, 80)
