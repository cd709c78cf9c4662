"""honest: PyTorch's own compiler for the same function.

Reference: slow
Expect: accepted
"""

import torch
import torch.nn as nn


def function(x):
    for _ in range(4):
        x = torch.tanh(x) + torch.sin(2 * x)
    return torch.softmax(x, dim=-1)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = torch.compile(function)

    def forward(self, x):
        return self.compiled(x)
