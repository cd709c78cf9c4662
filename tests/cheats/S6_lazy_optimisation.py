"""S6: only the cheapest operator is its own.

Reference: linear
Expect: accepted
Gpu: host: reads tensors through numpy
Operators: aten.addmm.default
"""

import torch
import torch.nn as nn

import numpy as np


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        y = self.linear(x).numpy()
        return torch.from_numpy(np.maximum(y, 0))
