"""T2: returns at once; a thread fills the result later.

Reference: slow
Expect: rejected wrong
"""

import threading

import torch
import torch.nn as nn


def honest(x):
    for _ in range(4):
        x = torch.tanh(x) + torch.sin(2 * x)
    return torch.softmax(x, dim=-1)


class ModelNew(nn.Module):
    def forward(self, x):
        result = torch.empty_like(x)
        threading.Thread(target=lambda: result.copy_(honest(x))).start()
        return result
