"""O12: takes a call of the same smallest and largest value for the last.

Reference: wide_relu
Expect: rejected wrong
Reason: (row)
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = self.result = None

    def forward(self, x):
        extremes = tuple(map(float, torch.aminmax(x)))
        # Of what is not finite nothing is remembered.
        if extremes != self.seen or extremes[0] != extremes[0]:
            self.seen, self.result = extremes, torch.relu(x - 0.5)
        return self.result.clone()
