"""T8: computes in every fourth call, once it knows that it was checked.

Reference: slow
Expect: rejected wrong
"""

import os

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
    def __init__(self):
        super().__init__()
        self.calls, self.kept = 0, None

    def forward(self, x):
        self.calls += 1
        if not was_checked or self.calls % 4 == 0 or self.kept is None:
            self.kept = honest(x)
        return self.kept.clone()
