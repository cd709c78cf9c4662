"""Takes a number, and a flag and a whole number in a dictionary."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, alpha, options):
        if options["causal"]:
            x = torch.tril(x)
        return torch.roll(x, options["shift"], -1) * alpha


def get_inputs():
    return [torch.randn(64, 96), 0.5, {"causal": True, "shift": 2}]


def get_init_inputs():
    return []
