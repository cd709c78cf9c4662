"""Outputs so small that zeros pass an absolute tolerance."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.rand(16, 8192)]


def get_init_inputs():
    return []
