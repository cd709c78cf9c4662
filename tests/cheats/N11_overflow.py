"""N11: a softmax that does not subtract the maximum.

Reference: softmax
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        e = torch.exp(x)
        return e / e.sum(dim=-1, keepdim=True)
