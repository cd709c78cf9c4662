"""What lies above a threshold, which few random numbers meet."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.where(x > 0.75, x, 0.0) + torch.where(x == y, 1.0, 0.0)


def get_inputs():
    return [torch.randn(64, 96), torch.randn(64, 96)]


def get_init_inputs():
    return []
