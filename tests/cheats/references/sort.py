"""Of few integers, so that a roll of them has the same answer."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sort(x)[0]


def get_inputs():
    return [torch.randint(0, 1000, (100000,))]


def get_init_inputs():
    return []
