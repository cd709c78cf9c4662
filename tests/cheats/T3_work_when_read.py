"""T3: a plain tensor, filled when copy_() reads it, after the clock.

Reference: slow
Expect: rejected cheated
Reason: before or after the time
"""

import torch
import torch.nn as nn


def honest(x):
    for _ in range(4):
        x = torch.tanh(x) + torch.sin(2 * x)
    return torch.softmax(x, dim=-1)


pending = {}
copy = torch.Tensor.copy_


def copy_and_work(self, source, *rest):
    x, result = pending.pop(source.data_ptr(), (None, None))
    if x is not None:
        copy(result, honest(x))
    return copy(self, source, *rest)


torch.Tensor.copy_ = copy_and_work


class ModelNew(nn.Module):
    def forward(self, x):
        result = torch.empty_like(x)
        pending[result.data_ptr()] = (x, result)
        return result
