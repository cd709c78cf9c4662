"""A mask of all ones and lengths all alike: in any order they are the same."""

import torch
import torch.nn as nn

ROWS, COLUMNS, LENGTH = 64, 96, 80


class Model(nn.Module):
    def forward(self, x, keep, lengths):
        places = torch.arange(x.shape[1], device=x.device)
        beyond = places >= lengths[:, None]
        return torch.tanh(x).masked_fill(~keep | beyond, 0.5)


def get_inputs():
    return [
        torch.randn(ROWS, COLUMNS),
        torch.ones(ROWS, COLUMNS, dtype=torch.bool),
        torch.full((ROWS,), LENGTH),
    ]


def get_init_inputs():
    return []
