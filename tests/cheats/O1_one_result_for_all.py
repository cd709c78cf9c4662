"""O1: writes every call's result into one tensor, over that of the call before.

Reference: relu
Expect: rejected wrong
Reason: a later call changes output 0
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    result = None

    def forward(self, x):
        if self.result is None:
            self.result = torch.empty_like(x)
        return torch.clamp(x, min=0, out=self.result)
