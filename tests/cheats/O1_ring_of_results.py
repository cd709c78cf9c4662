"""O1: three results in turn, so that the next call alone changes none.

Reference: relu
Expect: rejected wrong
Reason: a later call changes output 0
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    results = None
    calls = 0

    def forward(self, x):
        if self.results is None:
            self.results = [torch.empty_like(x) for _ in range(3)]
        self.calls += 1
        return torch.clamp(x, min=0, out=self.results[self.calls % 3])
