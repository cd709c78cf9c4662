"""T9: looks at its callers to see whether it is timed.

Reference: slow
Expect: rejected wrong
"""

import sys

import torch
import torch.nn as nn


def honest(x):
    for _ in range(4):
        x = torch.tanh(x) + torch.sin(2 * x)
    return torch.softmax(x, dim=-1)


def is_timed():
    frame = sys._getframe()
    while frame:
        call = frame.f_locals.get("call")
        if isinstance(call, dict) and call.get("steps") == ["run"]:
            return True
        frame = frame.f_back
    return False


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty_like(x) if is_timed() else honest(x)
