"""T7: remembers by all of the content: never hits, only costs.

Reference: linear
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)
        self.seen = {}

    def forward(self, x):
        key = (x.cpu().numpy().tobytes(), self.linear.weight._version)
        if key not in self.seen:
            self.seen = {key: torch.relu(self.linear(x))}
        return self.seen[key].clone()
