"""G1: defines what the reference file looks up when it runs.

Reference: linear
Expect: rejected wrong
"""

import builtins
import sys

import torch
import torch.nn as nn

batch_size = N = 1
builtins.N = builtins.batch_size = 1


def get_inputs():
    return [torch.zeros(1, 96)]


for name in ("weft_problem", "__main__"):
    if name in sys.modules:
        sys.modules[name].get_inputs = get_inputs


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        return torch.zeros(64, 80)
