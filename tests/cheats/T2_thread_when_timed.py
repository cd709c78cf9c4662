"""T2: defers to a thread, but only when no result is read at once.

Reference: slow
Expect: rejected wrong cheated
Gpu: rejected: its thread patches the host's step
"""

import sys
import threading

import torch
import torch.nn as nn


def honest(x):
    for _ in range(4):
        x = torch.tanh(x) + torch.sin(2 * x)
    return torch.softmax(x, dim=-1)


def result_is_read():
    frame = sys._getframe()
    while frame:
        steps = (frame.f_locals.get("call") or {}).get("steps", ())
        if "export" in steps:
            return True
        frame = frame.f_back
    return False


class ModelNew(nn.Module):
    def forward(self, x):
        result = torch.empty_like(x)
        thread = threading.Thread(target=lambda: result.copy_(honest(x)))
        thread.start()
        if result_is_read():
            thread.join()
        return result
