"""O12: takes a call that differs from the last in one element for the last.

Reference: wide_relu
Expect: rejected wrong
Reason: (outlier)
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = self.result = None

    def forward(self, x):
        if self.seen is None or (x != self.seen).sum() > 1:
            self.seen, self.result = x.clone(), torch.relu(x - 0.5)
        return self.result.clone()
