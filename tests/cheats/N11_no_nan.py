"""N11: makes numbers of nan.

Reference: relu
Expect: rejected wrong
Reason: special
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nan_to_num(torch.relu(x), nan=0.0)
