"""honest: other operators of the framework for the same function.

Reference: slow
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range(4):
            x = torch.tanh(x).add_(torch.sin(x + x))
        x = torch.exp(x - x.amax(-1, keepdim=True))
        return x / x.sum(-1, keepdim=True)
