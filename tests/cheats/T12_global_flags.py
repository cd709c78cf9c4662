"""T12: flips global settings: harmless, the baseline has its own process.

Reference: linear
Expect: accepted
"""

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
torch.backends.mkldnn.enabled = False


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        return torch.relu(self.linear(x))
