"""Honest: the fading rows, by another way to the same numbers.

Reference: fading
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        steps = torch.arange(96, dtype=torch.float32, device=x.device)
        fade = torch.exp2(-steps).reshape(1, 96, 1)
        return (x * fade) * (0.5 * torch.erfc(-x * 0.7071067811865476))
