"""T3: as T3_work_when_read.py, with work that takes a fraction of a millisecond.

Reference: short
Expect: rejected cheated
Reason: before or after the time
"""

import torch
import torch.nn as nn

pending = {}
copy = torch.Tensor.copy_


def copy_and_work(self, source, *rest):
    x, result = pending.pop(source.data_ptr(), (None, None))
    if x is not None:
        copy(result, torch.softmax(torch.tanh(x) + torch.sin(2 * x), dim=-1))
    return copy(self, source, *rest)


torch.Tensor.copy_ = copy_and_work


class ModelNew(nn.Module):
    def forward(self, x):
        pending.clear()
        result = torch.empty_like(x)
        pending[result.data_ptr()] = (x, result)
        return result
