"""Keeps what it was given and what it gave, counts, and gives that twice."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("given", torch.randn(64, 128))
        self.register_buffer("level", torch.randn(64, 128))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls.add_(1)
        level = torch.tanh((x - self.given + self.level) / self.calls)
        self.given.copy_(x)
        self.level.copy_(level)
        return level, level.clone()


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
