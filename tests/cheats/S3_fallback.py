"""S3: its own path always throws, and the framework runs.

Reference: linear
Expect: accepted
Operators: aten.addmm.default
Remark: no kernel of its own
"""

import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        try:
            return ctypes.CDLL("libmissing_kernel.so").run(x.data_ptr())
        except OSError:
            return torch.relu(self.linear(x))
