"""Four equal gated blocks: one kernel is searched for, and used four times.

The blocks differ in their parameters only, so that their subgraphs share one
canonical signature.
"""

import torch
import torch.nn as nn

ROWS, WIDTH, BLOCKS = 4096, 512, 4


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.randn(width))
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x):
        gate = torch.sigmoid(self.norm(x) * self.scale + self.shift)
        return x + gate * torch.tanh(x)


class Model(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Gate(width) for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH, BLOCKS]
