"""T7: remembers its results by the addresses of its inputs.

Reference: product
Expect: rejected wrong
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, a, b):
        key = (a.data_ptr(), b.data_ptr())
        if key not in self.seen:
            self.seen[key] = a @ b
        return self.seen[key].clone()
