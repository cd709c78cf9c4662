"""T14: computes while its inputs are laid out, before it is called.

Reference: slow
Expect: rejected cheated
Reason: before or after the time
"""

import sys

import torch
import torch.nn as nn


def honest(x):
    for _ in range(4):
        x = torch.tanh(x) + torch.sin(2 * x)
    return torch.softmax(x, dim=-1)


ready = {}
seed = torch.manual_seed


def seed_and_work(number):
    made = seed(number)
    runner = sys._getframe(1).f_locals.get("self")
    for x in getattr(runner, "_args", ()):
        ready[x.data_ptr()] = honest(x)
    return made


torch.manual_seed = seed_and_work


class ModelNew(nn.Module):
    def forward(self, x):
        result = ready.pop(x.data_ptr(), None)
        return honest(x) if result is None else result
