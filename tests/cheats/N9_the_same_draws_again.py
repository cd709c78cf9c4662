"""N9: draws what the reference draws, and then the same in the next call.

Reference: dropout
Expect: rejected wrong
Reason: (next)
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        with torch.random.fork_rng():
            return self.drop(x) + 1
