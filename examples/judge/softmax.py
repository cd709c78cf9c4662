"""Softmax along rows: a reference for `weft eval`."""

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(512, 1000)]


def get_init_inputs():
    return []
