"""T3: a subclass of Tensor, named like it, that computes when it is read.

Reference: slow
Expect: rejected wrong
Reason: type is another class
"""

import torch
import torch.nn as nn


def honest(x):
    for _ in range(4):
        x = torch.tanh(x) + torch.sin(2 * x)
    return torch.softmax(x, dim=-1)


class Tensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        plain = [
            honest(a.pending) if hasattr(a, "pending") else a for a in args
        ]
        with torch._C.DisableTorchFunctionSubclass():
            return function(*plain, **(kwargs or {}))


class ModelNew(nn.Module):
    def forward(self, x):
        made = torch.empty_like(x).as_subclass(Tensor)
        made.pending = x
        return made
