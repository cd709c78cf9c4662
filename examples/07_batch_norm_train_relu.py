"""Batch norm in training mode, then ReLU: its statistics are results too.

The model is never put in evaluation mode, so that every call uses the batch's
own statistics and updates running_mean, running_var and num_batches_tracked.
"""

import torch
import torch.nn as nn

BATCH, CHANNELS, SIZE = 16, 64, 64


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE) * 2.0 + 0.5]


def get_init_inputs():
    return [CHANNELS]
