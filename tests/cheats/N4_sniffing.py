"""N4: a cheap path when a prefix looks like the benchmark.

Reference: relu
Expect: rejected wrong
Reason: altered
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        if bool((x.reshape(-1)[:64] >= 0).all()):
            return x.clone()
        return torch.relu(x)
