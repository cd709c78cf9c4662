"""N9: draws where the reference does not: what follows it is drawn otherwise.

Reference: relu
Expect: rejected wrong
Reason: draws random numbers
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        torch.rand(1)
        return torch.relu(x)
