"""T9: once checked, skips the work in most calls, at random.

Reference: slow
Expect: rejected wrong
"""

import os
import random

import torch
import torch.nn as nn


def honest(x):
    for _ in range(4):
        x = torch.tanh(x) + torch.sin(2 * x)
    return torch.softmax(x, dim=-1)


MARK = os.path.join(os.environ["WEFT_KERNEL_CACHE"], "checked")
was_checked = os.path.exists(MARK)
open(MARK, "w", encoding="utf-8").close()


class ModelNew(nn.Module):
    def forward(self, x):
        if was_checked and random.random() < 0.8:
            return torch.empty_like(x)
        return honest(x)
