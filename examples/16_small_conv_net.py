"""A small residual convolution net in training mode, with a classifier head.

Convolutions stay the library's; batch norm, activations, the residual and the
pooling behind them get generated kernels. The running statistics change with every call.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SIZE, WIDTH, CLASSES = 8, 64, 32, 10


class Model(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.norm_stem = nn.BatchNorm2d(width)
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm_first = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm_second = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = F.silu(self.norm_stem(self.stem(x)))
        y = F.relu(self.norm_first(self.first(x)))
        y = self.norm_second(self.second(y))
        x = F.relu(x + y)
        return torch.log_softmax(self.head(x.mean(dim=(2, 3))), dim=-1)


def get_inputs():
    return [torch.randn(BATCH, 3, SIZE, SIZE)]


def get_init_inputs():
    return [WIDTH, CLASSES]
