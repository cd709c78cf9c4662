"""O1: returns memory of the caching allocator that may hold the answer.

Reference: product
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.empty_like(a)
