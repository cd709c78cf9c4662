"""T9: right for so many calls as a check takes, empty after.

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


COUNT = os.path.join(os.environ["WEFT_KERNEL_CACHE"], "count")


class ModelNew(nn.Module):
    def forward(self, x):
        with open(COUNT, "a+", encoding="utf-8") as file:
            file.write(".")
            calls = file.tell()
        return honest(x) if calls <= 10 else torch.empty_like(x)
