"""T6: leaves with exit code 0 in the middle of a call.

Reference: linear
Expect: rejected crashed
Reason: exit code 0
"""

import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        os._exit(0)
