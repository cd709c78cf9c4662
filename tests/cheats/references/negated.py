"""The last step is a sign."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return -torch.tanh(x)


def get_inputs():
    return [torch.randn(128, 256)]


def get_init_inputs():
    return []
