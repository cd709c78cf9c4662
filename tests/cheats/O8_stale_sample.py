"""O8: remembers by address and a sample of the content.

Reference: relu
Expect: rejected wrong
Reason: altered
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, x):
        key = (x.data_ptr(), *x.reshape(-1)[::997].tolist())
        if key not in self.seen:
            self.seen[key] = torch.relu(x)
        return self.seen[key].clone()
