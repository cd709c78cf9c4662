"""N7: the factors as TF32 has them, where the framework computes in float32.

Reference: linear
Expect: rejected wrong
Reason: TF32 errs so, and PyTorch computed in float32
"""

import torch
import torch.nn as nn


def cut(x):
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        weight = cut(self.linear.weight)
        return torch.relu(torch.addmm(self.linear.bias, cut(x), weight.t()))
