"""T4: its own clock stands still.

Reference: slow
Expect: rejected cheated
Gpu: accepted: its clock does not take the time there, the device's events do
Reason: its own clock
"""

import time

import torch
import torch.nn as nn


def honest(x):
    for _ in range(4):
        x = torch.tanh(x) + torch.sin(2 * x)
    return torch.softmax(x, dim=-1)


time.perf_counter_ns = lambda: 0
time.perf_counter = lambda: 0.0
time.time = lambda: 0.0


class ModelNew(nn.Module):
    def forward(self, x):
        return honest(x)
