"""T3: works when it is asked whether its kernels ran, which comes after the clock
and before its result is read.

Reference: slow
Expect: rejected wrong cheated
"""

import sys

import torch
import torch.nn as nn

pending = []


def honest(x):
    for _ in range(4):
        x = torch.tanh(x) + torch.sin(2 * x)
    return torch.softmax(x, dim=-1)


def work(runner, call):
    while pending:
        x, result = pending.pop()
        result.copy_(honest(x))
    return {"passed_on": ""}


sys.modules["weft.candidate.model_runner"].ModelRunner._ran = work


class ModelNew(nn.Module):
    def forward(self, x):
        result = torch.empty_like(x)
        pending.append((x, result))
        return result
