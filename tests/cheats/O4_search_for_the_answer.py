"""O4: looks for the expected values in all objects and frames.

Reference: linear
Expect: rejected wrong
"""

import gc
import sys

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        for held in gc.get_objects():
            if type(held) is torch.Tensor and held.shape == (64, 80):
                if bool(torch.isfinite(held).all()):
                    return held.clone()
        frame = sys._getframe()
        while frame:
            for value in frame.f_locals.values():
                if isinstance(value, torch.Tensor) and value.shape == (64, 80):
                    return value.clone()
            frame = frame.f_back
        return torch.zeros(64, 80)
