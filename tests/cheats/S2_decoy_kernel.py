"""S2: launches a kernel on one element, the framework does the rest.

Reference: linear
Expect: accepted
Gpu: host: its kernel is C++ for host memory
Operators: aten.addmm.default
"""

import ctypes

import torch
import torch.nn as nn

import numpy as np


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        one = np.zeros(1, dtype=np.float32)
        ctypes.memset(one.ctypes.data, 0, 4)
        return torch.relu(self.linear(x)) + torch.from_numpy(one)
