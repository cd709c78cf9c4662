"""T9: once checked, skips the work in every fourth call.

Reference: short
Expect: rejected wrong
"""

import os

import torch
import torch.nn as nn

MARK = os.path.join(os.environ["WEFT_KERNEL_CACHE"], "checked")
was_checked = os.path.exists(MARK)
open(MARK, "w", encoding="utf-8").close()


class ModelNew(nn.Module):
    calls = 0

    def forward(self, x):
        ModelNew.calls += 1
        if was_checked and ModelNew.calls % 4 == 0:
            return torch.empty_like(x)
        return torch.softmax(torch.tanh(x) + torch.sin(2 * x), dim=-1)
