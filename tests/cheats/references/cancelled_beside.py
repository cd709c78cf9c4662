"""A sum whose rounding is larger than what is added, beside one that has none."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x), (x + 1e9) - 1e9


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
