"""S7: steps around the list of operators: what it names is no proof.

Reference: linear
Expect: accepted
Operators: none
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        with torch.utils._python_dispatch._disable_current_modes():
            return torch.relu(self.linear(x))
