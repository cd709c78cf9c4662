"""An activation whose rows fade by a half each, as discounts and decays do."""

import torch
import torch.nn as nn

BATCH, STEPS, WIDTH = 16, 96, 1024


class Model(nn.Module):
    def forward(self, x):
        steps = torch.arange(STEPS, dtype=torch.float32, device=x.device)
        fade = torch.pow(0.5, steps).reshape(1, STEPS, 1)
        return torch.nn.functional.gelu(x) * fade


def get_inputs():
    return [torch.randn(BATCH, STEPS, WIDTH)]


def get_init_inputs():
    return []
