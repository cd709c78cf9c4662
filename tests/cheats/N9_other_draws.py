"""N9: draws its own random numbers.

Reference: dropout
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        torch.seed()
        return self.drop(x) + 1
