"""Instance norm and leaky ReLU, as in image style transfer.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, CHANNELS, SIZE = 8, 32, 128


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels, affine=True)

    def forward(self, x):
        return F.leaky_relu(self.norm(x), 0.2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
