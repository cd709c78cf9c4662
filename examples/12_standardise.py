"""Standardise each row by its mean and standard deviation, then clip outliers.
"""

import torch
import torch.nn as nn

ROWS, COLUMNS = 4096, 1024


class Model(nn.Module):
    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        deviation = x.std(dim=-1, keepdim=True)
        return torch.clamp((x - mean) / (deviation + 1e-5), -3.0, 3.0)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) * 5.0 + 2.0]


def get_init_inputs():
    return []
