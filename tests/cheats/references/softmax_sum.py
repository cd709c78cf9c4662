"""One, whatever the input: an algebraic shortcut."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1).sum(dim=-1)


def get_inputs():
    return [torch.rand(64, 128)]


def get_init_inputs():
    return []
