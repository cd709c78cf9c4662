"""O1: returns memory that may still hold the right answer.

Reference: slow
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty_like(x)
