"""N21: what rounding leaves is nothing to float64, which does not round.

Reference: rest
Expect: rejected wrong
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return (x / 0.1).round() * 0.1, x * 0.0
